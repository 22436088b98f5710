package strictjson

import "strings"

// Plain is JSON text with <, > and & as they are. encoding/json writes them as \u003c, \u003e and \u0026 for pages of HTML,
// which makes a condition hard to read; the meaning is the same.
func Plain(text string) string {
	if !strings.Contains(text, `\u00`) {
		return text
	}
	// An escaped backslash is passed over whole: what follows it is no escape.
	return plain.Replace(text)
}

var plain = strings.NewReplacer(`\\`, `\\`, `\u003c`, "<", `\u003C`, "<", `\u003e`, ">", `\u003E`, ">", `\u0026`, "&")

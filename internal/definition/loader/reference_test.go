package loader_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/definition/loader"
)

// The text around the generated part of the page.
const (
	begins = "<!-- What follows is made from internal/definition/loader/table.go: go test ./internal/definition/loader -update -->\n"
	ends   = "<!-- Up to here. -->\n"
)

func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	page := filepath.Join("..", "..", "..", "docs", "reference", "definitions.md")
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(raw), begins)
	generated, after, ended := strings.Cut(rest, ends)
	if !begun || !ended {
		t.Fatalf("%s has no markers", page)
	}
	want := reference(t)
	if *update {
		if err := os.WriteFile(page, []byte(before+begins+want+ends+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if generated != want {
		t.Error("docs/reference/definitions.md is not current: go test ./internal/definition -update")
	}
}

// chapters are the blocks in the order of the page, each kind with the blocks below it. The texts of the kinds of
// channels share a table.
func chapters() [][]string {
	return [][]string{
		{"workflow"},
		{"trigger"},
		{"schedule"},
		{"cooldown"},
		{"metric"},
		{"digest"},
		{"reconcile"},
		{"timing"},
		{"sequence"},
		{"repeat"},
		{"dst"},
		{"audience"},
		{"message"},
		{"data"},
		{"email", "sms", "whatsapp", "push", "inbox", "webhook"},
		{"limits"},
		{"retry"},
		{"sink_ref"},
		{"condition"},
		{"template"},
		{"persona"},
		{"group"},
		{"topic"},
		{"match", "match_values"},
		{"cadence"},
		{"total"},
		{"record_type"},
		{"survey", "invitation"},
		{"question", "option"},
		{"conversation"},
		{"channel", "keywords"},
		{"sink"},
		{"sink_retry"},
		{"workspace"},
	}
}

func headings() map[string]string {
	return map[string]string{
		"workflow": "workflow: NAME", "trigger": "triggers", "email": "texts", "sink_ref": "sinks", "template": "template: NAME",
		"persona": "persona: NAME", "group": "group: NAME", "topic": "topic: NAME", "match": "match of a topic", "record_type": "record_type: NAME",
		"survey": "survey: NAME", "question": "questions", "conversation": "conversation of a survey", "channel": "channel: KIND:NAME", "sink": "sink: NAME",
		"sink_retry": "retry of a sink", "workspace": "workspace: NAME",
	}
}

// reference writes the keys that are built, then what is refused.
func reference(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("\n## Keys\n\nA key may be left out unless it is required.\n")
	seen := map[string]bool{}
	for _, blocks := range chapters() {
		heading := headings()[blocks[0]]
		if heading == "" {
			heading = blocks[0]
		}
		fmt.Fprintf(&b, "\n### %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", heading)
		for i, block := range blocks {
			seen[block] = true
			prefix := ""
			if i > 0 || blocks[0] == "email" {
				prefix = block + "."
			}
			_, rows := loader.Rows(block)
			for _, row := range rows {
				if row.Later {
					continue
				}
				meaning, byDefault, _ := strings.Cut(row.Doc, "Default: ")
				if meaning = strings.TrimSpace(meaning); meaning == "" {
					t.Errorf("%s.%s has no doc", block, row.Name)
				}
				byDefault = strings.TrimSuffix(byDefault, ".")
				if row.Required {
					byDefault = "required"
				}
				fmt.Fprintf(&b, "| `%s%s` | %s | %s | %s |\n", prefix, row.Name, valueOf(row.Value), byDefault, meaning)
			}
		}
	}
	seen["channel_cadence"] = true // cadence without channels
	for block := range loader.Vocabulary() {
		if !seen[block] {
			t.Errorf("block %s is not on the page", block)
		}
	}
	b.WriteString(refused())
	return b.String()
}

// valueOf names a value by its schema.
func valueOf(schema map[string]any) string {
	if title, ok := schema["title"].(string); ok {
		return title
	}
	if words, ok := schema["enum"].([]any); ok {
		all := make([]string, len(words))
		for i, word := range words {
			all[i] = fmt.Sprintf("`%v`", word)
		}
		return strings.Join(all, " ")
	}
	if target, ok := schema["$ref"].(string); ok {
		return linkTo(strings.TrimPrefix(target, "#/$defs/"))
	}
	either, _ := schema["anyOf"].([]any)
	return "list of " + valueOf(either[0].(map[string]any))
}

func linkTo(block string) string {
	switch block {
	case "condition":
		return "[condition](#conditions)"
	case "settings":
		return "[settings](#settings)"
	case "invitation", "keywords":
		return "block"
	case "sms", "whatsapp", "push", "inbox", "webhook", "email":
		return "[texts](#texts)"
	case "option":
		return "`option`"
	}
	heading := headings()[block]
	if heading == "" {
		heading = block
	}
	anchor := strings.NewReplacer(" ", "-", ":", "").Replace(strings.ToLower(heading))
	return fmt.Sprintf("[%s](#%s)", strings.ReplaceAll(block, "_", " "), anchor)
}

// refused lists what is known and refused, in the order of the page.
func refused() string {
	var b strings.Builder
	b.WriteString("\n## Known and refused for now\n\n" +
		"These words are reserved. Each is refused with `\"…\" is not supported yet`, so that no file promises what is not done.\n\n")
	quoted := func(words []string) string { return "`" + strings.Join(words, "` `") + "`" }
	for _, blocks := range chapters() {
		for _, block := range blocks {
			name, rows := loader.Rows(block)
			var words []string
			for _, row := range rows {
				if row.Later {
					words = append(words, row.Name)
				}
			}
			if len(words) > 0 {
				fmt.Fprintf(&b, "- in %s: %s\n", name, quoted(words))
			}
		}
	}
	fmt.Fprintf(&b, "- in texts: %s\n- several offsets in one `timing` without a date of a record, and texts beside a `survey`\n\n", quoted(loader.LaterTextNames()))
	return b.String()
}

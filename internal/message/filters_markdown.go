package message

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	mdtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// stripMarkdown returns the text of Markdown (CommonMark) without its marks: a paragraph, a heading or an entry of a list is a line, and the address of a link
// follows its text in parentheses. HTML in it is left out.
func stripMarkdown(source string) string {
	raw := []byte(source)
	var b strings.Builder
	line := func() {
		if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
			b.WriteByte('\n')
		}
	}
	// The walk ends early only by an error of this function, which makes none.
	_ = ast.Walk(goldmark.DefaultParser().Parse(mdtext.NewReader(raw)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(unescaped(n.Segment.Value(raw)))
				if n.HardLineBreak() {
					b.WriteByte('\n')
				} else if n.SoftLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		case *ast.AutoLink:
			if entering {
				b.Write(n.Label(raw))
			}
		case *ast.Link:
			if !entering {
				b.WriteString(" (" + string(unescaped(n.Destination)) + ")")
			}
		case *ast.ListItem:
			if entering {
				line()
				b.WriteString("- ")
				return ast.WalkContinue, nil
			}
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			if entering {
				line()
				for i := range n.Lines().Len() {
					at := n.Lines().At(i)
					b.Write(at.Value(raw))
				}
			}
		case *ast.RawHTML, *ast.HTMLBlock:
			return ast.WalkSkipChildren, nil
		}
		if n.Type() == ast.TypeBlock && !entering {
			line()
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}

// unescaped resolves escapes of Markdown, such as \* and &amp;.
func unescaped(text []byte) []byte {
	return util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(bytes.Clone(text))))
}

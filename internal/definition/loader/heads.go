package loader

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/suggest"
)

// kindWords returns all words that a definition may begin with, sorted.
func kindWords() []string {
	var words []string
	for _, k := range builtKinds() {
		words = append(words, string(k))
	}
	slices.Sort(words)
	return words
}

// kindOf reads the kind of a document, its first key. If the key is not a kind, it returns the kind that was probably meant, or "".
func (r *reader) kindOf(root *portable.Node) (kind definition.Kind, first portable.Field, ok bool) {
	if root.Kind == portable.Broken {
		return "", first, false
	}
	if root.Kind != portable.Map || len(root.Fields) == 0 {
		r.wrong(root, "a definition", "its first key is its kind, its value the name, such as workflow: csi-gr")
		return "", first, false
	}
	first = root.Fields[0]
	word, words := first.Key.Text, kindWords()
	meant := suggest.Nearest(word, words)
	below := slices.IndexFunc(root.Fields, func(f portable.Field) bool {
		return slices.Contains(words, f.Key.Text) && !r.isKey(f.Key.Text, r.tables[f.Key.Text])
	})
	const message = "unknown kind %q"
	switch {
	case slices.Contains(words, word):
		return definition.Kind(word), first, true
	case root.Partial: // the line with the kind may be the one that could not be read
	case below > 0:
		r.report(definition.CodeUnknownKey, first.Key.Pos, fmt.Sprintf(message, word), "the first key is the kind: move it to the first line")
		return definition.Kind(root.Fields[below].Key.Text), first, false
	case meant != "":
		r.report(definition.CodeUnknownKey, first.Key.Pos, fmt.Sprintf(message, word), suggest.DidYouMean(word, words))
		return definition.Kind(meant), first, false
	default:
		r.report(definition.CodeUnknownKey, first.Key.Pos, fmt.Sprintf(message, word), "it is one of "+alternatives(words))
	}
	return "", first, false
}

// parts splits a document in which a --- is missing, at each line that begins another definition.
func (l *loader) parts(file string, doc portable.Document) []portable.Document {
	root := doc.Root
	if root.Kind != portable.Map || len(root.Fields) == 0 || !slices.Contains(kindWords(), root.Fields[0].Key.Text) {
		return []portable.Document{doc}
	}
	lines := slices.Concat(root.Fields, root.Repeated)
	slices.SortFunc(lines, func(a, b portable.Field) int { return cmp.Compare(a.Key.Pos.Line, b.Key.Pos.Line) })
	begins := []int{0}
	for i := 1; i < len(lines) && len(begins) < portable.MaxProblems; i++ {
		if last := begins[len(begins)-1]; l.begins(lines[last:i], lines[i:]) {
			begins = append(begins, i)
		}
	}
	if len(begins) == 1 {
		return []portable.Document{doc}
	}
	r := &reader{loader: l, file: file}
	var parts []portable.Document
	single := map[portable.Pos]bool{} // keys that are not repeated in their own part
	for i, begin := range begins {
		end := len(lines)
		if i+1 < len(begins) {
			end = begins[i+1]
		}
		if i > 0 {
			r.report(definition.CodeSyntax, lines[begin].Key.Pos, "this line begins another definition", "write --- on a line of its own above it")
		}
		n := &portable.Node{Kind: portable.Map, Pos: lines[begin].Key.Pos, Partial: root.Partial}
		seen := map[string]bool{}
		for _, f := range lines[begin:end] {
			if seen[f.Key.Text] {
				n.Repeated = append(n.Repeated, f)
				continue
			}
			seen[f.Key.Text], single[f.Key.Pos] = true, true
			n.Fields = append(n.Fields, f)
		}
		parts = append(parts, portable.Document{Root: n, Text: doc.Text, Line: doc.Line})
	}
	l.problems = slices.DeleteFunc(l.problems, func(p definition.Problem) bool {
		return p.File == file && single[portable.Pos{Line: p.Line, Column: p.Column}] && strings.HasPrefix(p.Message, "duplicate key")
	})
	return parts
}

// begins reports whether a line begins a new definition: its key is a kind, and either the definition above has no such key, or the
// next key belongs to the new definition only.
func (l *loader) begins(above, follow []portable.Field) bool {
	kind, head := l.tables[above[0].Key.Text], follow[0].Key
	own := l.tables[head.Text]
	if own == nil || head.Astray || head.Pos.Column != above[0].Key.Pos.Column {
		return false
	}
	if kind == own || !l.isKey(head.Text, own) {
		return true
	}
	if len(follow) == 1 || kind == nil {
		return false
	}
	next := follow[1].Key.Text
	written := slices.ContainsFunc(above, func(f portable.Field) bool { return f.Key.Text == next })
	return own.entry(next) != nil && (written || kind.entry(next) == nil)
}

// isKey reports whether a kind is also a key of a block.
func (l *loader) isKey(word string, own *block) bool {
	for _, b := range l.tables {
		if b != own && b.entry(word) != nil {
			return true
		}
	}
	return false
}

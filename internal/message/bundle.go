package message

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Part is one of the messages that Bundle joins.
type Part struct {
	Subject string
	Text    string
	HTML    string
}

// The separators between the parts of a bundle.
const (
	blankLine  = "\n\n"
	dashes     = "\n\n----------\n\n"
	horizontal = "\n<hr>\n"
)

// Bundle joins several messages into one, in order. In emails a line separates them, in other kinds a blank line. The subject is that of
// the first message plus the number of the others. HTML is kept if all parts have it and none is a whole document, except for the page
// around a Markdown text, which is then put around all parts. Elements that an author left open are closed, so that they do not affect
// the next part.
//
// The part at keep is always included. Parts without content, and parts that would make the message longer than limits allow, are left
// out: their indexes are returned.
func Bundle(parts []Part, keep int, email bool, limits Limits) (whole Part, out []int) {
	most, between := limits.withDefaults().MaxOutput, blankLine
	if email {
		between = dashes
	}
	given := parts
	parts = slices.Clone(parts)
	heads := make([]string, len(parts)) // of the parts that are pages
	for i, p := range parts {
		if head, body, ok := cutPage(p.HTML); ok {
			parts[i].HTML, heads[i] = body, head
		}
		if p.Text == "" && p.HTML == "" { // its subject is its whole content
			parts[i].Text = p.Subject
		}
	}
	rich := func(p Part) bool { return p.HTML != "" && !document(p.HTML) }
	useHTML := !slices.ContainsFunc(parts, func(p Part) bool { return !rich(p) }) || parts[keep].Text == ""
	useText := parts[keep].Text != "" && (!useHTML || !slices.ContainsFunc(parts, func(p Part) bool { return p.Text == "" }))
	if useHTML && !rich(parts[keep]) { // it is a whole document and has no text
		return given[keep], others(len(parts), keep)
	}
	in := map[int]Part{}
	texts, htmls := 0, 0
	add := func(i int) bool {
		p := parts[i]
		if useText && p.Text == "" || useHTML && !rich(p) {
			return false
		}
		if useHTML {
			p.HTML = closed(p.HTML)
		}
		text, markup := texts+len(p.Text)+len(between), htmls+len(p.HTML)+len(horizontal)
		if i != keep && (useText && text-len(between) > most || useHTML && markup-len(horizontal) > most) {
			return false
		}
		texts, htmls, in[i] = text, markup, p
		return true
	}
	add(keep)
	for i := range parts {
		if i != keep && !add(i) {
			out = append(out, i)
		}
	}
	if len(in) == 1 {
		return given[keep], out
	}
	var bodies, markups []string
	head := heads[keep]
	for i := range parts {
		p, ok := in[i]
		if !ok {
			continue
		}
		if len(bodies)+len(markups) == 0 {
			whole.Subject = p.Subject
		}
		if head == "" {
			head = heads[i]
		}
		if useText {
			bodies = append(bodies, p.Text)
		}
		if useHTML {
			if heads[i] != "" && heads[i] != head {
				p.HTML = "<div" + spokenIn(heads[i]) + ">\n" + p.HTML + "</div>\n"
			}
			markups = append(markups, p.HTML)
		}
	}
	if whole.Subject != "" {
		whole.Subject += fmt.Sprintf(" (+%d)", len(in)-1)
	}
	whole.Text, whole.HTML = strings.Join(bodies, between), strings.Join(markups, horizontal)
	if useHTML && head != "" {
		whole.HTML = head + whole.HTML + pageTail
	}
	return whole, out
}

// Append joins several messages into one like Bundle, of which the first is always included, and comes first. If it is a whole HTML document, the others
// follow at the end of its body, by their text where they have no HTML of their own that fits into it.
func Append(parts []Part, email bool, limits Limits) (whole Part, out []int) {
	first := parts[0]
	if !document(first.HTML) {
		return Bundle(parts, 0, email, limits)
	}
	if first.Text == "" {
		return first, others(len(parts), 0)
	}
	texts := slices.Clone(parts)
	for i := range texts {
		texts[i].HTML = ""
	}
	whole, out = Bundle(texts, 0, email, limits)
	var more strings.Builder
	for i, p := range parts[1:] {
		if slices.Contains(out, i+1) {
			continue
		}
		more.WriteString(horizontal)
		if p.HTML != "" && !document(p.HTML) {
			more.WriteString(closed(p.HTML))
		} else {
			more.WriteString("<p style=\"white-space: pre-line\">" + html.EscapeString(cmp.Or(p.Text, p.Subject)) + "</p>\n")
		}
	}
	end := strings.LastIndex(strings.ToLower(first.HTML), "</body")
	if end < 0 {
		end = len(first.HTML)
	}
	if whole.HTML = first.HTML[:end] + more.String() + first.HTML[end:]; len(whole.HTML) > limits.withDefaults().MaxOutput {
		return first, others(len(parts), 0)
	}
	return whole, out
}

func others(n, keep int) (list []int) {
	for i := range n {
		if i != keep {
			list = append(list, i)
		}
	}
	return list
}

// document reports whether HTML is a whole document, which cannot be joined with another one.
func document(text string) bool {
	tokens := html.NewTokenizer(strings.NewReader(text))
	for {
		switch tokens.Next() {
		case html.ErrorToken:
			return false
		case html.DoctypeToken:
			return true
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := tokens.TagName()
			if tag := atom.Lookup(name); tag == atom.Html || tag == atom.Head || tag == atom.Body {
				return true
			}
		case html.TextToken, html.EndTagToken, html.CommentToken:
		}
	}
}

// closed returns a piece of HTML as browsers parse it, with all elements closed.
func closed(text string) string {
	nodes, err := html.ParseFragment(strings.NewReader(text), &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body})
	if err != nil { // only a failing reader gives an error, and a text does not fail
		return html.EscapeString(text)
	}
	var b strings.Builder
	for _, n := range nodes {
		if err := html.Render(&b, n); err != nil {
			return html.EscapeString(text)
		}
	}
	return b.String()
}

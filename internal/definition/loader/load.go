package loader

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
)

// Options says what definitions may refer to in addition to one another.
type Options struct {
	// Providers of channels that this program knows; nil leaves the providers of channels unchecked.
	Providers []definition.ProviderInfo
	// Sinks are the providers of sinks that this program knows; nil leaves the providers of sinks unchecked.
	Sinks []definition.ProviderInfo
	// Functions are those of a binary of one's own that expressions may call.
	Functions []*expr.Function
	// Audiences are those of a binary of one's own that audiences may name; nil leaves their names unchecked.
	Audiences []*expr.Function
	// Secret says why the secret of that name cannot be used, which is a warning; nil leaves secrets unchecked.
	Secret func(name string) error
	// Place reports whether a record of the type place has that name. An audience that names another one has a warning; nil leaves them unchecked.
	Place func(name string) bool
	// Compiler compiles expressions, with the functions that it was made with; nil makes one for the call. One serves a whole process.
	Compiler *expr.Compiler
	// Known are the definitions in force. Files may refer to those that they do not redefine.
	Known []definition.Stored
	// Removed are definitions in force that will be removed, unless the files define them. A definition that needs one is an error.
	Removed []definition.Ref
	// Prune removes every definition in force that the files do not define.
	Prune bool
	// Whole says that the files and Known are complete: a missing channel or record type is then an error. Otherwise it is a warning,
	// since it may be added later.
	Whole bool
}

// Bundle is what a folder defines.
type Bundle struct {
	Documents []definition.Document // in the order of the files; scenarios are not among them
	Scenarios []definition.File
	Removed   []definition.Stored // in the order of Options.Known
	Set       *definition.Set     // with number 0 and versions 0
}

// Load reads the files of a folder and reports everything that is wrong with them at once. The bundle is usable only
// when no problem is more than a warning (Errors).
func Load(files []definition.File, opts Options) (Bundle, []definition.Problem) {
	l, err := newLoader(opts)
	if err != nil {
		return Bundle{}, []definition.Problem{{Message: err.Error(), Code: definition.CodeInvalid}}
	}
	var b Bundle
	for _, file := range files {
		docs, problems := portable.Parse(string(file.Text))
		if slices.ContainsFunc(docs, isScenario) {
			b.Scenarios = append(b.Scenarios, file) // package sim reports its problems
			continue
		}
		for _, p := range problems {
			l.problems = append(l.problems, definition.Problem{
				File: file.Name, Line: p.Line, Column: p.Column, Message: p.Message, Hint: p.Hint, Code: definition.CodeSyntax,
			})
		}
		for _, doc := range docs {
			for _, part := range l.parts(file.Name, doc) {
				l.add(file.Name, part, 0)
			}
		}
	}
	given := len(l.sources)
	for _, d := range opts.Known {
		ref := definition.Ref{Kind: d.Kind, Name: d.Name}
		switch {
		case l.byName[ref] != nil:
		case opts.Prune || slices.Contains(opts.Removed, ref):
			b.Removed = append(b.Removed, d)
			l.removed[ref] = true
		default:
			l.addKnown(d)
		}
	}
	b.Set = l.compile(0)
	for _, s := range l.sources[:given] {
		b.Documents = append(b.Documents, s.document)
	}
	// A definition in force was accepted when it was applied, so its problems are not reported.
	broken := brokenInForce(l.problems, opts)
	l.problems = slices.DeleteFunc(l.problems, func(p definition.Problem) bool { return isInForce(p.File) })
	return b, tidy(append(l.problems, broken...), files)
}

// inForce is the file name of a definition that is in force and not among the files.
const inForce = "\x00in force"

func isInForce(file string) bool { return strings.HasPrefix(file, inForce) }

// brokenInForce returns the errors that the new files cause in definitions in force, such as a template that no longer has a text for
// SMS, or a record type that lacks a field that is read.
func brokenInForce(problems []definition.Problem, opts Options) []definition.Problem {
	broken := slices.DeleteFunc(slices.Clone(problems), func(p definition.Problem) bool { return p.Warning || !isInForce(p.File) })
	if len(broken) == 0 {
		return nil
	}
	before, err := newLoader(opts)
	if err != nil {
		return []definition.Problem{{Message: err.Error(), Code: definition.CodeInvalid}}
	}
	for _, d := range opts.Known {
		before.addKnown(d)
	}
	before.compile(0)
	broken = slices.DeleteFunc(broken, func(p definition.Problem) bool { return slices.Contains(before.problems, p) })
	for i := range broken {
		broken[i].File = strings.TrimPrefix(broken[i].File, inForce+" ") + " in force"
		if broken[i].Code != definition.CodeNeeded {
			broken[i].Hint = "it does not fit these files: correct it and apply it with them"
		}
	}
	return broken
}

// addKnown adds a definition in force.
func (l *loader) addKnown(d definition.Stored) {
	docs, _ := portable.Parse(d.Text)
	for _, doc := range docs {
		l.add(inForce+" "+string(d.Kind)+" "+d.Name, doc, d.Version)
	}
}

// Compile makes the set of that number from the rows of the store, through the same code as Load. A dangling reference, such as a
// provider that this program does not know or a removed template, is no error here: it shows when a message is sent (C44).
func Compile(number int64, docs []definition.Stored, opts Options) (*definition.Set, error) {
	l, err := newLoader(opts)
	if err != nil {
		return nil, err
	}
	l.stored, l.compiler = true, l.compiler.InForce()
	for _, d := range docs {
		name := string(d.Kind) + " " + d.Name
		parsed, problems := portable.Parse(d.Text)
		for _, p := range problems {
			l.problems = append(l.problems, definition.Problem{File: name, Line: p.Line, Column: p.Column, Message: p.Message, Hint: p.Hint, Code: definition.CodeSyntax})
		}
		for _, doc := range parsed {
			l.add(name, doc, d.Version)
		}
	}
	set := l.compile(number)
	var errs []error
	for _, p := range tidy(l.problems, nil) {
		if !p.Warning {
			errs = append(errs, errors.New(p.String()))
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("compile the definitions: %w", errors.Join(errs...))
	}
	return set, nil
}

// loader holds the state that the documents of a set share while they are read.
type loader struct {
	opts     Options
	compiler *expr.Compiler
	tables   tables
	stored   bool // from the store: an accepted document is not refused because a provider is missing
	problems []definition.Problem
	sources  []*source
	byName   map[definition.Ref]*source
	removed  map[definition.Ref]bool
	unread   map[definition.Kind]bool // a definition of that kind has an unreadable name; "": its kind is unreadable too

	readsGroups      bool // a text or an expression reads contact.groups
	templates        map[string]definition.Message
	brokenInvitation map[string]bool // surveys whose invitation was already refused
	// Where things stand that are judged when all has been read.
	triggerAt map[*definition.Trigger]portable.Pos
	dedupAt   map[*definition.OnEvent]portable.Pos
	kindAt    map[*expr.Program]portable.Pos // of the kind of an address
}

// source is a document that is being added to a set.
type source struct {
	document definition.Document
	root     *portable.Node
	nameAt   portable.Pos
	version  int64
}

func newLoader(opts Options) (*loader, error) {
	l := &loader{
		opts: opts, compiler: opts.Compiler, tables: newTables(), byName: map[definition.Ref]*source{}, removed: map[definition.Ref]bool{}, unread: map[definition.Kind]bool{},
		templates: map[string]definition.Message{}, brokenInvitation: map[string]bool{},
		triggerAt: map[*definition.Trigger]portable.Pos{}, dedupAt: map[*definition.OnEvent]portable.Pos{}, kindAt: map[*expr.Program]portable.Pos{},
	}
	if l.compiler == nil {
		c, err := expr.NewCompiler(opts.Functions...)
		if err != nil {
			return nil, err
		}
		l.compiler = c
	}
	return l, nil
}

func isScenario(d portable.Document) bool {
	return d.Root.Kind == portable.Map && len(d.Root.Fields) > 0 && d.Root.Fields[0].Key.Text == string(definition.KindScenario)
}

// add reads the first key of a document, which says its kind and its name.
func (l *loader) add(file string, doc portable.Document, version int64) {
	r := &reader{loader: l, file: file}
	kind, first, ok := r.kindOf(doc.Root)
	if !ok {
		l.unread[kind] = true
		return
	}
	read := r.defName
	switch {
	case kind == definition.KindWorkflow, kind == definition.KindRecordType:
		read = r.slug
	case kind == definition.KindChannel:
		read = r.channelKey
	}
	name, ok := read(first.Value)
	if !ok {
		name = ""
	}
	s := &source{
		document: definition.Document{Kind: kind, Name: name, Text: doc.Text, Hash: meaning(doc.Root), File: file, Line: doc.Root.Pos.Line},
		root:     doc.Root, nameAt: first.Value.Pos, version: version,
	}
	l.sources = append(l.sources, s)
	if !ok {
		l.unread[kind] = true
		return
	}
	id := definition.Ref{Kind: kind, Name: name}
	if other := l.byName[id]; other != nil {
		r.report(definition.CodeDuplicate, s.nameAt, fmt.Sprintf("%s %s is defined twice", kind, name),
			fmt.Sprintf("the other one is at %s:%d", other.document.File, other.nameAt.Line))
		return
	}
	l.byName[id] = s
}

// meaning returns a hash of a document's content. Comments, the order of keys and blanks do not count.
func meaning(root *portable.Node) string {
	canonical, err := json.Marshal(root.Value()) // sorts keys; values are JSON values
	if err != nil {
		canonical = []byte(root.Text)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// each calls f for the documents of a kind.
func (l *loader) each(kind definition.Kind, f func(r *reader, s *source)) {
	for _, s := range l.sources {
		if s.document.Kind == kind {
			f(l.reader(s), s)
		}
	}
}

// reader reads a document, and says what is wrong with it.
func (l *loader) reader(s *source) *reader {
	return &reader{loader: l, file: s.document.File, kind: s.document.Kind, name: s.document.Name, about: anySubject()}
}

// defined returns the names of a kind, sorted.
func (l *loader) defined(kind definition.Kind) []string {
	var names []string
	for _, s := range l.sources {
		if s.document.Kind == kind && s.document.Name != "" {
			names = append(names, s.document.Name)
		}
	}
	slices.Sort(names)
	return names
}

// compile makes the set of all documents that were added. Documents that others refer to are read first.
func (l *loader) compile(number int64) *definition.Set {
	set := definition.New(number, defaultWorkspace())
	var one *source
	l.each(definition.KindWorkspace, func(r *reader, s *source) {
		switch {
		case one == nil:
			one, set.Workspace = s, r.workspace(s.root)
		case isInForce(s.document.File):
			r = &reader{loader: l, file: one.document.File}
			r.report(definition.CodeDuplicate, one.nameAt, "this workspace is called "+s.document.Name, "definitions of another workspace are applied to that workspace")
		default:
			r.report(definition.CodeDuplicate, s.nameAt, "there is one workspace in a set of definitions", "put the definitions of another workspace into a folder of their own")
		}
	})
	l.each(definition.KindChannel, func(r *reader, s *source) {
		c := r.channel(s.root)
		c.Hash = s.document.Hash
		set.AddChannel(c)
	})
	l.each(definition.KindSink, func(r *reader, s *source) { set.AddSink(r.sink(s.root)) })
	l.each(definition.KindPersona, func(r *reader, s *source) { set.AddPersona(r.persona(s.root)) })
	l.each(definition.KindGroup, func(r *reader, s *source) {
		g := r.group(s.root)
		g.Hash = s.document.Hash
		set.AddGroup(g)
	})
	l.each(definition.KindTopic, func(r *reader, s *source) { set.AddTopic(r.topic(s.root)) })
	l.each(definition.KindRecordType, func(r *reader, s *source) {
		if t := r.recordType(s.root); t != nil {
			set.AddRecordType(t)
		}
	})
	set.Relate()
	l.each(definition.KindSurvey, func(r *reader, s *source) {
		survey := r.survey(s.root)
		survey.Version = s.version
		set.AddSurvey(survey)
	})
	l.each(definition.KindTemplate, func(r *reader, s *source) { l.templates[s.document.Name] = r.templateDocument(s.root) })
	l.each(definition.KindWorkflow, func(r *reader, s *source) {
		w := r.workflow(s.root, set)
		w.Version = s.version
		set.AddWorkflow(w)
	})
	l.lint(set)
	l.lintMidnight(set)
	l.lintReplies(set)
	l.lintSinks(set)
	l.lintSubscribers(set)
	l.lintConfirm(set)
	set.Index()
	set.ReadsGroups = l.readsGroups
	return set
}

// tidy sorts problems by file and line and removes duplicates.
func tidy(problems []definition.Problem, files []definition.File) []definition.Problem {
	order := make(map[string]int, len(files))
	for i, f := range files {
		order[f.Name] = i
	}
	seen := make(map[definition.Problem]bool, len(problems))
	problems = slices.DeleteFunc(problems, func(p definition.Problem) bool {
		twice := seen[p]
		seen[p] = true
		return twice
	})
	slices.SortStableFunc(problems, func(a, b definition.Problem) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return problems
}

package key

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "append new entries to the corpus; existing entries never change")

// entry is one line of the corpus: a call, by name and arguments, and the result that it had when it was added.
type entry struct {
	Call string   `json:"call"`
	Args []string `json:"args"`
	Want string   `json:"want"`
}

func (e entry) id() string { return e.Call + "(" + strings.Join(e.Args, "; ") + ")" }

// run makes the call of an entry.
func (e entry) run() (string, error) {
	number := func(i int) (n int) {
		_, err := fmt.Sscan(e.Args[i], &n)
		if err != nil {
			panic(err)
		}
		return n
	}
	value := func(i int) (v any, err error) {
		d := json.NewDecoder(strings.NewReader(e.Args[i]))
		d.UseNumber()
		err = d.Decode(&v)
		return v, err
	}
	switch e.Call {
	case "event":
		return string(Event(e.Args[0], e.Args[1], e.Args[2])), nil
	case "context": // …, fired at, "resolved" or empty
		at, err := time.Parse(time.RFC3339Nano, e.Args[6])
		return string(Context(e.Args[0], e.Args[1], e.Args[2], e.Args[3], e.Args[4], e.Args[5], at, e.Args[7] != "")), err
	case "context_text": // trigger, JSON values
		parts := make([]any, len(e.Args)-1)
		for i := range parts {
			v, err := value(i + 1)
			if err != nil {
				return "", err
			}
			parts[i] = v
		}
		return ContextText(e.Args[0], parts)
	case "retry":
		return string(Instance(e.Args[0]).Retry(number(1))), nil
	case "course":
		return string(Instance(e.Args[0]).OfCourse(number(1), number(2))), nil
	case "after_event":
		return string(Instance(e.Args[0]).AfterEvent(number(1), "", number(2)+1)), nil
	case "course_of": // key, reset, message, id of the contact
		return string(Instance(e.Args[0]).OfCourse(number(1), number(2)).OfPerson(e.Args[3])), nil
	case "delivery":
		return string(Instance(e.Args[0]).Delivery(e.Args[1], e.Args[2])), nil
	case "idempotency":
		return Delivery(e.Args[0]).Idempotency(number(1)), nil
	case "hash":
		return Hash(e.Args[0]), nil
	case "dedup": // path, JSON value, path, JSON value …
		var recipe []string
		values := map[string]any{}
		for i := 0; i+1 < len(e.Args); i += 2 {
			recipe = append(recipe, e.Args[i])
			if e.Args[i+1] == "" {
				continue
			}
			v, err := value(i + 1)
			if err != nil {
				return "", err
			}
			values[e.Args[i]] = v
		}
		text, _ := DedupString(recipe, func(path string) (any, bool) { v, ok := values[path]; return v, ok })
		return Hash(text), nil
	case "canonical":
		v, err := value(0)
		if err != nil {
			return "", err
		}
		b, err := CanonicalJSON(v)
		return string(b), err
	case "input_hash":
		v, err := value(0)
		if err != nil {
			return "", err
		}
		return InputHash(v)
	case "event_hash":
		v, err := value(1)
		if err != nil {
			return "", err
		}
		return EventHash(e.Args[0], v.(map[string]any), e.Args[3:], e.Args[2]), nil
	case "public_id":
		return NewPublicIDs([]byte(e.Args[0])).Encode(Kind(e.Args[1][0]), int64(number(2)), int64(number(3))), nil
	case "uuid":
		return NewPublicIDs([]byte(e.Args[0])).UUID(Kind(e.Args[1][0]), int64(number(2)), int64(number(3))), nil
	case "keyed":
		return NewKeyed([]byte(e.Args[0]), Purpose(e.Args[1])).Hash(e.Args[2:]...), nil
	case "uniform":
		return fmt.Sprint(NewKeyed([]byte(e.Args[0]), Purpose(e.Args[1])).Uniform(uint64(number(2)), e.Args[3:]...)), nil
	}
	return "", fmt.Errorf("unknown call %q", e.Call)
}

// TestCorpus makes every name and hash of the corpus again. They must never change, because databases hold them as keys.
//
// Shows: B17.
func TestCorpus(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "corpus.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var corpus []entry
	if err := json.Unmarshal(text, &corpus); err != nil {
		t.Fatal(err)
	}
	if len(corpus) < 126 { // the number of entries when this was written: no entry is ever removed
		t.Fatalf("the corpus has only %d entries", len(corpus))
	}
	seen := map[string]bool{}
	changed := false
	for i, e := range corpus {
		if seen[e.id()] {
			t.Errorf("%s is listed twice", e.id())
		}
		seen[e.id()] = true
		got, err := e.run()
		switch {
		case err != nil:
			t.Errorf("%s: %v", e.id(), err)
		case e.Want == "" && *update:
			corpus[i].Want, changed = got, true
		case got != e.Want:
			t.Errorf("%s\n got %s\nwant %s", e.id(), got, e.Want)
		}
	}
	if changed {
		out, err := json.MarshalIndent(corpus, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(out, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

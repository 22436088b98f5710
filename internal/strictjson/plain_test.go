package strictjson_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/carillonhq/carillon/internal/strictjson"
)

func TestPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", `{"a":1}`: `{"a":1}`,
		`{"when":"a \u003e 5 \u0026\u0026 b \u003C 6"}`: `{"when":"a > 5 && b < 6"}`,
		`{"a":"\\u003e \\\u003e \u0022 \u00e4"}`:        `{"a":"\\u003e \\> \u0022 \u00e4"}`,
	} {
		got := strictjson.Plain(text)
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		var before, after any
		if json.Unmarshal([]byte(text), &before) == nil && (json.Unmarshal([]byte(got), &after) != nil || !reflect.DeepEqual(before, after)) {
			t.Errorf("%s means %v, and %s %v", text, before, got, after)
		}
	}
}

package store_test

import "github.com/carillonhq/carillon/internal/store"

// onKind are n contacts, each on a kind of channel.
func onKind(n int) any { return store.Rows(n, func(i int) []any { return []any{1, i + 1, "sms"} }) }

// asked are n contacts, each with a question.
func asked(n int) any {
	return store.Rows(n, func(i int) []any { return []any{1, i + 1, "sms", 3, "fever", "hash"} })
}

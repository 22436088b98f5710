package sim

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkYear lives a year: a survey whose invitation goes out on every day, with three reminders each.
func BenchmarkYear(b *testing.B) {
	for _, every := range []string{"365d", "1d", "6h"} {
		b.Run("an event every "+every, func(b *testing.B) {
			s, problems := Parse("year.yaml", fmt.Appendf(nil, `scenario: A year
start: 2026-01-01 00:00
define:
  - workflow: survey
    type: survey
    triggers:
      - id: bought
        event: bought
    timing:
      reminders: [5d, 10d, 15d]
    audience:
      - to: event.recipient
    channel: sms
    message:
      survey: how
  - survey: how
    title: How was it?
    invitation:
      text: How was it? {{ survey.link }}
    questions:
      - id: rate
        type: rating
        text: How was it?
        min: 1
        max: 5
  - channel: sms
    provider: memory
given:
  - event: bought
    occurred_at: now
    recipient: {address: "+4930000001"}
    every: %s
steps:
  - at: 2027-01-01 00:00
    expect:
      sent: any
`, every))
			if len(problems) > 0 {
				b.Fatal(problems)
			}
			var r Result
			var err error
			for b.Loop() {
				if r, err = Run(b.Context(), s[0], Options{Providers: providers(), Sinks: sinks()}); err != nil {
					b.Fatal(err)
				}
			}
			sent := 0
			for _, e := range r.Journal {
				if e.What == "sent" {
					sent++
				}
			}
			if r.Span() != 365*24*time.Hour || sent == 0 {
				b.Fatalf("%s, %d messages", r.Span(), sent)
			}
			b.ReportMetric(float64(sent), "messages")
		})
	}
}

package message

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// moment reads a time: an instant, a date, or a text that contains one. dated is true for a date, which has no zone. The words
// now and today are errors, because a template has no clock.
func moment(s *state, v any) (t time.Time, dated bool, err error) {
	switch v := v.(type) {
	case time.Time:
		return v.In(s.zone), false, nil
	case Local:
		return v.Time, false, nil
	case civil.Date:
		return time.Date(v.Year, v.Month, v.Day, 0, 0, 0, 0, time.UTC), true, nil
	case string:
		if d, err := civil.ParseDate(v); err == nil {
			return moment(s, d)
		}
		if t, err := time.Parse(time.RFC3339, v); err == nil {
			return t.In(s.zone), false, nil
		}
		for _, layout := range [...]string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04"} {
			if t, err := time.Parse(layout, v); err == nil {
				return t, false, nil
			}
		}
		return time.Time{}, false, errors.New("needs a date, and this text is none")
	}
	return time.Time{}, false, fmt.Errorf("needs a date, not %s", kindOf(v))
}

// dateFilter writes a date in the locale's language, or by a strftime pattern. Null stays null.
func dateFilter(s *state, in any, args []any) (any, error) {
	if in == nil || in == "" {
		return nil, nil
	}
	t, _, err := moment(s, in)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return longDate(t, s.locale), nil
	}
	pattern, err := textOf(args[0])
	if err != nil {
		return nil, err
	}
	return strftime(t, pattern, s.locale)
}

// localTime writes a date and a time of day in the reader's zone.
func localTime(s *state, in any, args []any) (any, error) {
	if in == nil || in == "" || len(args) > 0 {
		return dateFilter(s, in, args)
	}
	t, dated, err := moment(s, in)
	if err != nil || dated {
		return longDate(t, s.locale), err
	}
	return longDate(t, s.locale) + " " + t.Format("15:04"), nil
}

// longDate writes a date in the language of the locale, such as 25 May 2026. For a language without names of months it writes
// 2026-05-25, as definitions do.
func longDate(t time.Time, locale string) string {
	names, pattern, ok := months(locale)
	if !ok {
		return t.Format("2006-01-02")
	}
	month := strings.Fields(names)[t.Month()-1]
	return strings.NewReplacer("D", strconv.Itoa(t.Day()), "M", month, "Y", t.Format("2006")).Replace(pattern)
}

// months returns the names of the months in a language, in the form that a date needs, and the pattern of a date.
func months(locale string) (names, pattern string, ok bool) {
	switch language(locale) {
	case "", "en":
		return "January February March April May June July August September October November December", "D M Y", true
	case "ar":
		return "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر", "D M Y", true
	case "cy":
		return "Ionawr Chwefror Mawrth Ebrill Mai Mehefin Gorffennaf Awst Medi Hydref Tachwedd Rhagfyr", "D M Y", true
	case "da":
		return "januar februar marts april maj juni juli august september oktober november december", "D. M Y", true
	case "de":
		return "Januar Februar März April Mai Juni Juli August September Oktober November Dezember", "D. M Y", true
	case "es":
		return "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre", "D de M de Y", true
	case "fr":
		return "janvier février mars avril mai juin juillet août septembre octobre novembre décembre", "D M Y", true
	case "it":
		return "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre", "D M Y", true
	case "nb", "nn", "no":
		return "januar februar mars april mai juni juli august september oktober november desember", "D. M Y", true
	case "nl":
		return "januari februari maart april mei juni juli augustus september oktober november december", "D M Y", true
	case "pl":
		return "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia", "D M Y", true
	case "pt":
		return "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro", "D de M de Y", true
	case "sv":
		return "januari februari mars april maj juni juli augusti september oktober november december", "D M Y", true
	case "sw":
		return "Januari Februari Machi Aprili Mei Juni Julai Agosti Septemba Oktoba Novemba Desemba", "D M Y", true
	}
	return "", "", false
}

// strftime writes a time by a pattern of Liquid, with %Y %m %d %H %M and so on. An unknown letter is an error.
func strftime(t time.Time, pattern, locale string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' || i+1 == len(pattern) {
			b.WriteByte(pattern[i])
			continue
		}
		i++
		plain := pattern[i] == '-' && i+1 < len(pattern) // %-d: without the leading zero
		if plain {
			i++
		}
		out, ok := conversion(t, pattern[i], locale)
		if !ok {
			return "", fmt.Errorf("%%%s is no part of a date", strings.ToValidUTF8(pattern[i:i+1], "?"))
		}
		if plain {
			out = strings.TrimLeft(out[:len(out)-1], "0 ") + out[len(out)-1:]
		}
		b.WriteString(out)
	}
	return b.String(), nil
}

func conversion(t time.Time, letter byte, locale string) (string, bool) {
	switch letter {
	case '%':
		return "%", true
	case 'B': // the month's name in the language of the locale
		if names, _, ok := months(locale); ok {
			return strings.Fields(names)[t.Month()-1], true
		}
		return t.Format("January"), true
	case 'e':
		return fmt.Sprintf("%2d", t.Day()), true
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay()), true
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), true
	case 's':
		return strconv.FormatInt(t.Unix(), 10), true
	}
	layout, ok := layout(letter)
	return t.Format(layout), ok
}

// layout returns Go's layout of a conversion.
func layout(letter byte) (string, bool) {
	switch letter {
	case 'Y':
		return "2006", true
	case 'y':
		return "06", true
	case 'm':
		return "01", true
	case 'b':
		return "Jan", true
	case 'd':
		return "02", true
	case 'H':
		return "15", true
	case 'I':
		return "03", true
	case 'M':
		return "04", true
	case 'S':
		return "05", true
	case 'p':
		return "PM", true
	case 'P':
		return "pm", true
	case 'A':
		return "Monday", true
	case 'a':
		return "Mon", true
	case 'Z':
		return "MST", true
	case 'z':
		return "-0700", true
	case 'F':
		return "2006-01-02", true
	case 'T':
		return "15:04:05", true
	case 'R':
		return "15:04", true
	}
	return "", false
}

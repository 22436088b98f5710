package public

import (
	"fmt"

	"github.com/carillonhq/carillon/internal/survey"
)

// words are the page's own texts in one language. Numbers are written into them where %s stands. Sentences with a number are built so
// that they need no plural.
type words struct {
	Locale string

	Untitled                       string // a survey without a title
	Required, None, Yes, No        string
	Several, DateForm              string // hints
	Between, AtLeast, AtMost, Long string // hints with numbers
	Send                           string
	Error                          string // before the text of an error
	Mend, More, MoreText           string // above a form that was not taken
	Failed, FailedText             string
	Kept, NotKept, Asked           string // what the script says

	Missing, Choose, NotANumber, NotAnOption, TooSmall, TooLarge, NotWhole, TooLong string // why an answer is not taken
	NotText, NotADate, NotMatching, NotValid, Changed                               string

	Thanks, Again, Closed, NotFound, TooMany, BodyTooLarge, Unreadable, Elsewhere, Method, Broken notice

	Leave, Left, NoLink, Expired notice // of the page that ends subscriptions
	LeaveNow                     string

	Follow followWords
}

// notice is a page of one message.
type notice struct{ Title, Text string }

// messageOf is a page of one message in some language.
type messageOf func(*words) notice

func pageThanks(w *words) notice     { return w.Thanks }
func pageAgain(w *words) notice      { return w.Again }
func pageClosed(w *words) notice     { return w.Closed }
func pageNotFound(w *words) notice   { return w.NotFound }
func pageTooMany(w *words) notice    { return w.TooMany }
func pageTooLarge(w *words) notice   { return w.BodyTooLarge }
func pageUnreadable(w *words) notice { return w.Unreadable }
func pageElsewhere(w *words) notice  { return w.Elsewhere }
func pageMethod(w *words) notice     { return w.Method }
func pageFailed(w *words) notice     { return w.Broken }
func pageLeft(w *words) notice       { return w.Left }
func pageNoLink(w *words) notice     { return w.NoLink }
func pageExpired(w *words) notice    { return w.Expired }

// problem says why an answer is not taken, and what to do.
func (w *words) problem(p survey.Problem, by control) string {
	limit := digitsOf(w.Locale).write(p.Limit)
	chosen := by == radios || by == checks || by == scale
	switch p.Code {
	case survey.Missing:
		if chosen {
			return w.Choose
		}
		return w.Missing
	case survey.WrongType:
		switch {
		case chosen:
			return w.NotAnOption
		case by == figure:
			return w.NotANumber
		case by == day:
			return w.NotADate
		}
		return w.NotText
	case survey.NotAnOption:
		return w.NotAnOption
	case survey.TooSmall:
		return fmt.Sprintf(w.TooSmall, limit)
	case survey.TooLarge:
		return fmt.Sprintf(w.TooLarge, limit)
	case survey.NotWhole:
		return w.NotWhole
	case survey.TooLong:
		return fmt.Sprintf(w.TooLong, limit)
	case survey.NotText:
		return w.NotText
	case survey.NotADate:
		return w.NotADate
	case survey.NotMatching:
		return w.NotMatching
	case survey.NotValid:
		return w.NotValid
	case survey.UnknownQuestion, survey.NotAsked:
		return w.Changed
	}
	return w.NotValid // a code of a later version
}

// bounds is the hint of a number between bounds; nil is none.
func (w *words) bounds(low, high *float64) string {
	d := digitsOf(w.Locale)
	switch {
	case low != nil && high != nil:
		return fmt.Sprintf(w.Between, d.write(*low), d.write(*high))
	case low != nil:
		return fmt.Sprintf(w.AtLeast, d.write(*low))
	case high != nil:
		return fmt.Sprintf(w.AtMost, d.write(*high))
	}
	return ""
}

func (w *words) length(most int) string {
	return fmt.Sprintf(w.Long, digitsOf(w.Locale).write(float64(most)))
}

// table holds the page's own texts in every language, English first.
func table() []*words {
	return []*words{
		{
			Locale:   "en",
			Untitled: "Questions", Required: "required", None: "No answer", Yes: "Yes", No: "No",
			Several: "Choose all that apply.", DateForm: "Year, month and day, such as 2026-05-14.",
			Between: "From %s to %s.", AtLeast: "%s or more.", AtMost: "%s or less.", Long: "Characters allowed: %s.",
			Send: "Send answers", Error: "Error",
			Mend: "Please check these answers", More: "A little more to answer",
			MoreText: "Your answers lead to further questions. Nothing has been sent yet.",
			Failed:   "Your answers could not be taken just now", FailedText: "They are still here. Please send them again in a moment.",
			Kept: "Your answers are kept until you send them.", NotKept: "There is no connection. Your answers are on this page only.",
			Asked:   "The questions that follow have changed.",
			Missing: "Please answer this question.", Choose: "Please choose an answer.", NotANumber: "Please write a number, such as 12.5.",
			NotAnOption: "Please choose one of the answers shown.", TooSmall: "Please write %s or more.", TooLarge: "Please write %s or less.",
			NotWhole: "Please write a whole number.", TooLong: "This text is too long. Characters allowed: %s.",
			NotText: "This text has characters that cannot be kept. Please type it again.", NotADate: "Please write a date like this: 2026-05-14.",
			NotMatching: "This does not have the form that is asked for.", NotValid: "This answer cannot be accepted here.",
			Changed:      "The survey has changed meanwhile. Please look at your answers and send them again.",
			Thanks:       notice{"Thank you", "Your answers have been received."},
			Again:        notice{"Already answered", "Answers to this survey have been received before, and it is answered once. Nothing was changed. Thank you."},
			Closed:       notice{"This survey is closed", "It takes no answers any more. Thank you for your interest."},
			NotFound:     notice{"There is no survey at this address", "Please open the link exactly as it is in your message."},
			TooMany:      notice{"Too many requests", "Please wait a moment, then load this page again."},
			BodyTooLarge: notice{"The answers are too long", "Nothing was sent. Please go back, shorten the longest answers, and send them again."},
			Unreadable:   notice{"The form could not be read", "Nothing was sent. Please open the link from your message and try again."},
			Elsewhere:    notice{"This form was sent from another site", "Nothing was changed. Please open the link from your message."},
			Method:       notice{"That is not possible here", "Please open the link from your message."},
			Broken:       notice{"Something went wrong", "It is not your fault. Please try again in a moment."},
			Leave:        notice{"Unsubscribe", "You will get no more messages about:"}, LeaveNow: "Unsubscribe",
			Follow:  followEnglish(),
			Left:    notice{"You are unsubscribed", "You get no more of these messages. One that was on its way already may still arrive."},
			NoLink:  notice{"This link does not work", "Please open the link exactly as it is in your message."},
			Expired: notice{"This link has expired", "Please open the link in a newer message."},
		},
		{
			Locale:   "ar",
			Untitled: "أسئلة", Required: "إجابة مطلوبة", None: "بلا إجابة", Yes: "نعم", No: "لا",
			Several: "يمكنك اختيار أكثر من إجابة.", DateForm: "السنة ثم الشهر ثم اليوم، مثل \u20662026-05-14\u2069.",
			Between: "من %s إلى %s.", AtLeast: "%s أو أكثر.", AtMost: "%s أو أقل.", Long: "عدد الأحرف المسموح به: %s.",
			Send: "إرسال الإجابات", Error: "خطأ",
			Mend: "يرجى مراجعة هذه الإجابات", More: "بقيت أسئلة أخرى",
			MoreText: "تؤدي إجاباتك إلى أسئلة إضافية. لم يُرسل شيء بعد.",
			Failed:   "تعذّر استلام إجاباتك الآن", FailedText: "ما زالت إجاباتك هنا. يرجى إرسالها مرة أخرى بعد قليل.",
			Kept: "نحتفظ بإجاباتك إلى أن ترسلها.", NotKept: "لا يوجد اتصال. إجاباتك موجودة في هذه الصفحة فقط.",
			Asked:   "تغيّرت الأسئلة التالية.",
			Missing: "يرجى الإجابة عن هذا السؤال.", Choose: "يرجى اختيار إجابة.", NotANumber: "يرجى كتابة رقم، مثل ١٢٫٥.",
			NotAnOption: "يرجى اختيار إحدى الإجابات المعروضة.", TooSmall: "يرجى كتابة %s أو أكثر.", TooLarge: "يرجى كتابة %s أو أقل.",
			NotWhole: "يرجى كتابة عدد صحيح.", TooLong: "النص طويل جدًا. عدد الأحرف المسموح به: %s.",
			NotText: "يحتوي النص على رموز لا يمكن حفظها. يرجى كتابته مرة أخرى.", NotADate: "يرجى كتابة التاريخ هكذا: \u20662026-05-14\u2069.",
			NotMatching: "الإجابة ليست بالشكل المطلوب.", NotValid: "لا يمكن قبول هذه الإجابة هنا.",
			Changed:      "تغيّر الاستبيان في هذه الأثناء. يرجى مراجعة إجاباتك وإرسالها مرة أخرى.",
			Thanks:       notice{"شكرًا لك", "لقد استلمنا إجاباتك."},
			Again:        notice{"تمت الإجابة من قبل", "استلمنا إجابات هذا الاستبيان من قبل، ولا تُقبل إلا مرة واحدة. لم يتغيّر شيء. شكرًا لك."},
			Closed:       notice{"هذا الاستبيان مغلق", "لم يعد يستقبل إجابات. شكرًا لاهتمامك."},
			NotFound:     notice{"لا يوجد استبيان في هذا العنوان", "يرجى فتح الرابط كما ورد في رسالتك تمامًا."},
			TooMany:      notice{"طلبات كثيرة جدًا", "يرجى الانتظار قليلًا ثم تحميل هذه الصفحة مرة أخرى."},
			BodyTooLarge: notice{"الإجابات طويلة جدًا", "لم يُرسل شيء. يرجى الرجوع واختصار الإجابات الطويلة ثم إرسالها مرة أخرى."},
			Unreadable:   notice{"تعذّرت قراءة النموذج", "لم يُرسل شيء. يرجى فتح الرابط من رسالتك والمحاولة مرة أخرى."},
			Elsewhere:    notice{"أُرسل هذا النموذج من موقع آخر", "لم يتغيّر شيء. يرجى فتح الرابط من رسالتك."},
			Method:       notice{"هذا غير ممكن هنا", "يرجى فتح الرابط من رسالتك."},
			Broken:       notice{"حدث خطأ ما", "ليس الخطأ منك. يرجى المحاولة مرة أخرى بعد قليل."},
			Leave:        notice{"إلغاء الاشتراك", "لن تصلك بعد الآن رسائل عن:"}, LeaveNow: "إلغاء الاشتراك",
			Follow:  followArabic(),
			Left:    notice{"تم إلغاء اشتراكك", "لن تصلك هذه الرسائل بعد الآن. قد تصلك رسالة كانت في طريقها إليك."},
			NoLink:  notice{"هذا الرابط لا يعمل", "يرجى فتح الرابط كما ورد في رسالتك تمامًا."},
			Expired: notice{"انتهت صلاحية هذا الرابط", "يرجى فتح الرابط من رسالة أحدث."},
		},
		{
			Locale:   "de",
			Untitled: "Fragen", Required: "Pflichtfrage", None: "Keine Angabe", Yes: "Ja", No: "Nein",
			Several: "Mehrere Antworten sind möglich.", DateForm: "Jahr, Monat und Tag, zum Beispiel 2026-05-14.",
			Between: "Von %s bis %s.", AtLeast: "%s oder mehr.", AtMost: "%s oder weniger.", Long: "Erlaubte Zeichen: %s.",
			Send: "Antworten senden", Error: "Fehler",
			Mend: "Bitte prüfen Sie diese Antworten", More: "Noch ein paar Fragen",
			MoreText: "Aus Ihren Antworten ergeben sich weitere Fragen. Es wurde noch nichts gesendet.",
			Failed:   "Ihre Antworten konnten gerade nicht angenommen werden", FailedText: "Sie sind noch da. Bitte senden Sie sie gleich noch einmal.",
			Kept: "Ihre Antworten bleiben erhalten, bis Sie sie senden.", NotKept: "Keine Verbindung. Ihre Antworten stehen nur auf dieser Seite.",
			Asked:   "Die folgenden Fragen haben sich geändert.",
			Missing: "Bitte beantworten Sie diese Frage.", Choose: "Bitte wählen Sie eine Antwort.", NotANumber: "Bitte schreiben Sie eine Zahl, zum Beispiel 12,5.",
			NotAnOption: "Bitte wählen Sie eine der gezeigten Antworten.", TooSmall: "Bitte schreiben Sie %s oder mehr.", TooLarge: "Bitte schreiben Sie %s oder weniger.",
			NotWhole: "Bitte schreiben Sie eine ganze Zahl.", TooLong: "Der Text ist zu lang. Erlaubte Zeichen: %s.",
			NotText: "Der Text enthält Zeichen, die nicht gespeichert werden können. Bitte schreiben Sie ihn noch einmal.", NotADate: "Bitte schreiben Sie das Datum so: 2026-05-14.",
			NotMatching: "Das hat nicht die Form, nach der gefragt wird.", NotValid: "Diese Antwort kann hier nicht angenommen werden.",
			Changed:      "Die Umfrage hat sich inzwischen geändert. Bitte sehen Sie Ihre Antworten durch und senden Sie sie noch einmal.",
			Thanks:       notice{"Vielen Dank", "Ihre Antworten sind angekommen."},
			Again:        notice{"Schon beantwortet", "Zu dieser Umfrage sind schon Antworten angekommen; sie wird einmal beantwortet. Es wurde nichts geändert. Vielen Dank."},
			Closed:       notice{"Diese Umfrage ist geschlossen", "Sie nimmt keine Antworten mehr an. Vielen Dank für Ihr Interesse."},
			NotFound:     notice{"Unter dieser Adresse gibt es keine Umfrage", "Bitte öffnen Sie den Link genau so, wie er in Ihrer Nachricht steht."},
			TooMany:      notice{"Zu viele Anfragen", "Bitte warten Sie einen Moment und laden Sie die Seite dann neu."},
			BodyTooLarge: notice{"Die Antworten sind zu lang", "Es wurde nichts gesendet. Bitte gehen Sie zurück, kürzen Sie die längsten Antworten und senden Sie sie noch einmal."},
			Unreadable:   notice{"Das Formular konnte nicht gelesen werden", "Es wurde nichts gesendet. Bitte öffnen Sie den Link aus Ihrer Nachricht und versuchen Sie es noch einmal."},
			Elsewhere:    notice{"Dieses Formular kam von einer anderen Website", "Es wurde nichts geändert. Bitte öffnen Sie den Link aus Ihrer Nachricht."},
			Method:       notice{"Das geht hier nicht", "Bitte öffnen Sie den Link aus Ihrer Nachricht."},
			Broken:       notice{"Etwas ist schiefgegangen", "Es liegt nicht an Ihnen. Bitte versuchen Sie es gleich noch einmal."},
			Leave:        notice{"Abbestellen", "Sie erhalten dann keine Nachrichten mehr zu:"}, LeaveNow: "Abbestellen",
			Follow:  followGerman(),
			Left:    notice{"Abbestellt", "Sie erhalten diese Nachrichten nicht mehr. Eine, die schon unterwegs war, kann noch ankommen."},
			NoLink:  notice{"Dieser Link funktioniert nicht", "Bitte öffnen Sie den Link genau so, wie er in Ihrer Nachricht steht."},
			Expired: notice{"Dieser Link ist abgelaufen", "Bitte öffnen Sie den Link in einer neueren Nachricht."},
		},
	}
}

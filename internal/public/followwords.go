package public

// followWords are the texts of the pages for those who follow topics, in one language.
type followWords struct {
	Manage                     notice // above the choices
	Nothing                    notice
	None, Left                 string // the choice not to follow a topic, and that it is so
	Save, Saved, Refused       string
	LeaveAll                   string
	Confirm, Confirmed, Gone   notice
	ConfirmNow                 string
	Lost, Sent                 notice
	Address, SendLink, Renew   string
	NotAnAddress               string
	Immediate, Hourly, Daily   string // how often
	Weekly, Fortnightly        string
	Monthly, Quarterly, Yearly string
}

// frequency says how often: in the page's language where the name is one that people use, else as the workspace names it.
func (w *followWords) frequency(name string) string {
	known := map[string]string{
		"immediate": w.Immediate, "hourly": w.Hourly, "daily": w.Daily, "weekly": w.Weekly, "fortnightly": w.Fortnightly, "monthly": w.Monthly,
		"quarterly": w.Quarterly, "yearly": w.Yearly, "": w.None,
	}
	if text, ok := known[name]; ok {
		return text
	}
	return name
}

func pageNothing(w *words) notice   { return w.Follow.Nothing }
func pageConfirmed(w *words) notice { return w.Follow.Confirmed }
func pageGone(w *words) notice      { return w.Follow.Gone }
func pageSent(w *words) notice      { return w.Follow.Sent }

func followEnglish() followWords {
	return followWords{
		Manage:  notice{"What you follow", "Choose how often you want to hear about each topic."},
		Nothing: notice{"You follow nothing", "You get no messages about any topic."},
		None:    "Not at all", Left: "You have left this topic.",
		Save: "Save", Saved: "Your choices are saved.", Refused: "One of your choices is not offered any more. Please look at your choices again.",
		LeaveAll:   "Leave all topics",
		Confirm:    notice{"Please confirm", "You will get messages about:"},
		Confirmed:  notice{"You are subscribed", "You get messages about this topic from now on."},
		Gone:       notice{"There is nothing to confirm", "The time for it is over, or you have signed up again since. Please sign up once more."},
		ConfirmNow: "Confirm",
		Lost:       notice{"Get a link", "Write the address at which you get messages. If it follows a topic, we send a link there with which you can choose what you get."},
		Sent:       notice{"Please look at your messages", "If that address follows a topic, a link arrives there in a few minutes. It may be among unwanted mail."},
		Address:    "E-mail address or telephone number", SendLink: "Send me a link", Renew: "Send me a new link",
		NotAnAddress: "Please write an e-mail address such as name@example.com, or a telephone number.",
		Immediate:    "At once", Hourly: "Every hour", Daily: "Every day", Weekly: "Every week", Fortnightly: "Every two weeks", Monthly: "Every month",
		Quarterly: "Every three months", Yearly: "Every year",
	}
}

func followArabic() followWords {
	return followWords{
		Manage:  notice{"ما تتابعه", "اختر كم مرة تريد أن تصلك رسائل عن كل موضوع."},
		Nothing: notice{"لا تتابع شيئًا", "لا تصلك رسائل عن أي موضوع."},
		None:    "لا أريد رسائل", Left: "لم تعد تتابع هذا الموضوع.",
		Save: "حفظ", Saved: "تم حفظ اختياراتك.", Refused: "أحد اختياراتك لم يعد متاحًا. يرجى مراجعة اختياراتك مرة أخرى.",
		LeaveAll:   "ترك جميع المواضيع",
		Confirm:    notice{"يرجى التأكيد", "ستصلك رسائل عن:"},
		Confirmed:  notice{"تم اشتراكك", "ستصلك رسائل عن هذا الموضوع من الآن."},
		Gone:       notice{"لا يوجد ما يُؤكَّد", "انتهت المهلة، أو أنك اشتركت مرة أخرى بعد ذلك. يرجى الاشتراك من جديد."},
		ConfirmNow: "تأكيد",
		Lost:       notice{"الحصول على رابط", "اكتب العنوان الذي تصلك عليه الرسائل. إذا كان يتابع موضوعًا فسنرسل إليه رابطًا تختار به ما يصلك."},
		Sent:       notice{"يرجى الاطلاع على رسائلك", "إذا كان هذا العنوان يتابع موضوعًا فسيصل إليه رابط خلال دقائق. قد تجده بين الرسائل غير المرغوب فيها."},
		Address:    "البريد الإلكتروني أو رقم الهاتف", SendLink: "أرسلوا إليّ رابطًا", Renew: "أرسلوا إليّ رابطًا جديدًا",
		NotAnAddress: "يرجى كتابة بريد إلكتروني مثل \u2066name@example.com\u2069 أو رقم هاتف.",
		Immediate:    "فورًا", Hourly: "كل ساعة", Daily: "كل يوم", Weekly: "كل أسبوع", Fortnightly: "كل أسبوعين", Monthly: "كل شهر",
		Quarterly: "كل ثلاثة أشهر", Yearly: "كل سنة",
	}
}

func followGerman() followWords {
	return followWords{
		Manage:  notice{"Was Sie abonniert haben", "Wählen Sie, wie oft Sie zu jedem Thema etwas erhalten möchten."},
		Nothing: notice{"Sie haben nichts abonniert", "Sie erhalten zu keinem Thema Nachrichten."},
		None:    "Gar nicht", Left: "Sie haben dieses Thema abbestellt.",
		Save: "Speichern", Saved: "Ihre Auswahl ist gespeichert.", Refused: "Eine Auswahl wird nicht mehr angeboten. Bitte sehen Sie Ihre Auswahl noch einmal durch.",
		LeaveAll:   "Alle Themen abbestellen",
		Confirm:    notice{"Bitte bestätigen Sie", "Sie erhalten dann Nachrichten zu:"},
		Confirmed:  notice{"Abonniert", "Sie erhalten ab jetzt Nachrichten zu diesem Thema."},
		Gone:       notice{"Es gibt nichts zu bestätigen", "Die Frist ist vorbei, oder Sie haben sich inzwischen noch einmal angemeldet. Bitte melden Sie sich neu an."},
		ConfirmNow: "Bestätigen",
		Lost:       notice{"Link anfordern", "Schreiben Sie die Adresse, unter der Sie Nachrichten erhalten. Wenn sie ein Thema abonniert hat, senden wir dorthin einen Link, mit dem Sie wählen, was Sie erhalten."},
		Sent:       notice{"Bitte sehen Sie in Ihren Nachrichten nach", "Wenn diese Adresse ein Thema abonniert hat, kommt dort in wenigen Minuten ein Link an. Vielleicht liegt er im Spam-Ordner."},
		Address:    "E-Mail-Adresse oder Telefonnummer", SendLink: "Link senden", Renew: "Neuen Link senden",
		NotAnAddress: "Bitte schreiben Sie eine E-Mail-Adresse wie name@example.com oder eine Telefonnummer.",
		Immediate:    "Sofort", Hourly: "Jede Stunde", Daily: "Jeden Tag", Weekly: "Jede Woche", Fortnightly: "Alle zwei Wochen", Monthly: "Jeden Monat",
		Quarterly: "Alle drei Monate", Yearly: "Jedes Jahr",
	}
}

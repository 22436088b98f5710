package survey

// The words by which people answer, by language. All are folded: without case. English is understood beside each language. They are functions, so that nobody changes
// them.

// yesNoWords are the words for yes and for no.
func yesNoWords() map[string][2][]string {
	return map[string][2][]string{
		"en": {{"yes", "y", "yeah", "yep", "yup", "sure", "true", "1", "ok", "okay", "👍"}, {"no", "n", "nope", "nah", "false", "2", "0", "👎"}},
		"ar": {{"نعم", "اي", "أي", "أجل", "اجل", "ايوه", "أيوه", "ايوة"}, {"لا", "كلا"}},
		"de": {{"ja", "j", "jo", "jawohl"}, {"nein", "nee", "ne"}},
		"es": {{"sí", "si", "s"}, {"no"}},
		"fr": {{"oui", "o", "ouais"}, {"non"}},
		"pt": {{"sim", "s"}, {"não", "nao"}},
		"sw": {{"ndiyo", "ndio", "naam"}, {"hapana", "la", "siyo"}},
	}
}

// skipWords are the words by which a question is left out. A hyphen does that too.
func skipWords() map[string][]string {
	return map[string][]string{
		"en": {"skip", "pass", "next"},
		"ar": {"تخطي", "تخطى", "تجاوز"},
		"de": {"weiter", "überspringen", "auslassen"},
		"es": {"saltar", "omitir", "pasar"},
		"fr": {"passer", "suivant"},
		"pt": {"pular", "saltar", "passar"},
		"sw": {"ruka", "pita"},
	}
}

// numberWords are the words for the numbers from 0 to 10.
func numberWords() map[string][]string {
	return map[string][]string{
		"en": {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"},
		"ar": {"صفر", "واحد", "اثنان", "ثلاثة", "أربعة", "خمسة", "ستة", "سبعة", "ثمانية", "تسعة", "عشرة"},
		"de": {"null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"},
		"es": {"cero", "uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve", "diez"},
		"fr": {"zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix"},
		"pt": {"zero", "um", "dois", "três", "quatro", "cinco", "seis", "sete", "oito", "nove", "dez"},
		"sw": {"sifuri", "moja", "mbili", "tatu", "nne", "tano", "sita", "saba", "nane", "tisa", "kumi"},
	}
}

// dayWords are yesterday, today and tomorrow.
func dayWords() map[string][]string {
	return map[string][]string{
		"en": {"yesterday", "today", "tomorrow"},
		"ar": {"أمس", "اليوم", "غدا"},
		"de": {"gestern", "heute", "morgen"},
		"es": {"ayer", "hoy", "mañana"},
		"fr": {"hier", "aujourd'hui", "demain"},
		"pt": {"ontem", "hoje", "amanhã"},
		"sw": {"jana", "leo", "kesho"},
	}
}

// monthWords are the names of the months, several of them parted by a blank.
func monthWords() map[string][12]string {
	return map[string][12]string{
		"en": {"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"},
		"ar": {
			"يناير", "فبراير شباط", "مارس آذار", "أبريل ابريل نيسان", "مايو أيار ايار", "يونيو حزيران", "يوليو تموز", "أغسطس اغسطس آب", "سبتمبر أيلول ايلول",
			"أكتوبر اكتوبر", "نوفمبر", "ديسمبر",
		},
		"de": {"januar jänner", "februar feber", "märz", "april", "mai", "juni", "juli", "august", "september", "oktober", "november", "dezember"},
		"es": {"enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre setiembre", "octubre", "noviembre", "diciembre"},
		"fr": {"janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre", "novembre", "décembre"},
		"pt": {"janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto", "setembro", "outubro", "novembro", "dezembro"},
		"sw": {"januari", "februari", "machi", "aprili", "mei", "juni", "julai", "agosti", "septemba", "oktoba", "novemba", "desemba"},
	}
}

// commaBeforeDecimals are the languages that write a comma before decimals.
func commaBeforeDecimals() []string { return []string{"de", "es", "fr", "pt"} }

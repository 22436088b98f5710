package survey

// The words by which people answer, by language, each folded. English is understood beside each language. They are functions, so that nobody changes them. Only words that
// a speaker would not take for another answer belong here.

// answers are the words for yes and for no. Unclear are words of English that say something else in the language.
type answers struct{ yes, no, unclear []string }

func yesNoWords() map[string]answers {
	return map[string]answers{
		"en":  {yes: []string{"yes", "y", "yeah", "yep", "yup", "sure", "true", "1", "ok", "okay", "👍"}, no: []string{"no", "n", "nope", "nah", "false", "2", "0", "👎"}},
		"am":  {yes: []string{"አዎ", "አዎን"}, no: []string{"አይ", "አይደለም", "የለም"}},
		"ar":  {yes: []string{"نعم", "اي", "اجل", "ايوه", "ايوة"}, no: []string{"لا", "كلا"}},
		"bn":  {yes: []string{"হ্যাঁ", "হ্যা", "হাঁ", "জি", "জী"}, no: []string{"না", "জি না", "জী না"}},
		"cs":  {yes: []string{"ano", "jo"}, no: []string{"ne"}, unclear: []string{"no"}},
		"da":  {yes: []string{"ja", "jo"}, no: []string{"nej"}},
		"de":  {yes: []string{"ja", "j", "jo", "jawohl"}, no: []string{"nein", "nee", "ne"}},
		"el":  {yes: []string{"ναι"}, no: []string{"όχι", "οχι"}},
		"es":  {yes: []string{"sí", "si", "s"}, no: []string{"no"}},
		"fa":  {yes: []string{"بله", "بلي", "اره", "اري"}, no: []string{"نه", "خير", "نخير"}},
		"fi":  {yes: []string{"kyllä", "joo"}, no: []string{"ei"}},
		"fil": {yes: []string{"oo", "opo"}, no: []string{"hindi", "hindi po"}},
		"fr":  {yes: []string{"oui", "o", "ouais"}, no: []string{"non"}},
		"ha":  {yes: []string{"i", "eh", "na'am"}, no: []string{"a'a"}},
		"he":  {yes: []string{"כן"}, no: []string{"לא"}},
		"hi":  {yes: []string{"हाँ", "हां", "जी", "जी हाँ", "जी हां", "haan", "ji haan"}, no: []string{"नहीं", "नही", "जी नहीं", "nahi", "nahin"}},
		"hu":  {yes: []string{"igen"}, no: []string{"nem"}},
		"id":  {yes: []string{"ya", "iya"}, no: []string{"tidak", "tdk", "nggak", "enggak", "gak"}},
		"it":  {yes: []string{"sì", "sí", "si"}, no: []string{"no"}},
		"ja":  {yes: []string{"はい", "ええ", "うん"}, no: []string{"いいえ", "いえ", "ううん"}},
		"ko":  {yes: []string{"네", "예", "응"}, no: []string{"아니요", "아니오", "아니"}},
		"ms":  {yes: []string{"ya"}, no: []string{"tidak", "tak"}},
		"nb":  {yes: []string{"ja", "jo"}, no: []string{"nei"}},
		"nl":  {yes: []string{"ja", "j", "jawel"}, no: []string{"nee", "neen"}},
		"pl":  {yes: []string{"tak"}, no: []string{"nie"}, unclear: []string{"no"}},
		"pt":  {yes: []string{"sim", "s"}, no: []string{"não", "nao"}},
		"ro":  {yes: []string{"da"}, no: []string{"nu"}},
		"ru":  {yes: []string{"да", "ага"}, no: []string{"нет", "неа"}},
		"so":  {yes: []string{"haa"}, no: []string{"maya"}},
		"sv":  {yes: []string{"ja", "jo"}, no: []string{"nej"}},
		"sw":  {yes: []string{"ndiyo", "ndio", "naam"}, no: []string{"hapana", "la", "siyo"}},
		"th":  {yes: []string{"ใช่"}, no: []string{"ไม่ใช่", "ไม่"}},
		"tr":  {yes: []string{"evet"}, no: []string{"hayır", "hayir"}},
		"uk":  {yes: []string{"так", "ага"}, no: []string{"ні"}},
		"ur":  {yes: []string{"هاں", "جي", "جي هاں", "haan", "ji haan"}, no: []string{"نهيں", "جي نهيں", "nahi", "nahin"}},
		"vi":  {yes: []string{"có", "vâng", "dạ"}, no: []string{"không", "khong", "ko"}},
		"xh":  {yes: []string{"ewe"}, no: []string{"hayi"}},
		"yo":  {yes: []string{"bẹẹni", "bẹ́ẹ̀ni", "bẹ́ẹ̀ ni", "beeni"}, no: []string{"rárá", "rara", "bẹẹkọ", "bẹ́ẹ̀kọ́", "beeko"}},
		"zh":  {yes: []string{"是", "是的", "对", "對", "有", "好"}, no: []string{"不", "不是", "否", "没有", "沒有", "没", "沒"}},
		"zu":  {yes: []string{"yebo"}, no: []string{"cha", "qha", "hhayi"}},
	}
}

// skipWords are the words by which a question is left out. A hyphen does that too.
func skipWords() map[string][]string {
	return map[string][]string{
		"en": {"skip", "pass", "next"},
		"ar": {"تخطي", "تجاوز"},
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
		"ar": {"صفر", "واحد", "اثنان", "ثلاثة", "اربعة", "خمسة", "ستة", "سبعة", "ثمانية", "تسعة", "عشرة"},
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
		"ar": {"امس", "اليوم", "غدا"},
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
			"يناير", "فبراير شباط", "مارس اذار", "ابريل نيسان", "مايو ايار", "يونيو حزيران", "يوليو تموز", "اغسطس اب", "سبتمبر ايلول",
			"اكتوبر", "نوفمبر", "ديسمبر",
		},
		"de": {"januar jänner", "februar feber", "märz", "april", "mai", "juni", "juli", "august", "september", "oktober", "november", "dezember"},
		"es": {"enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre setiembre", "octubre", "noviembre", "diciembre"},
		"fr": {"janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre", "novembre", "décembre"},
		"pt": {"janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto", "setembro", "outubro", "novembro", "dezembro"},
		"sw": {"januari", "februari", "machi", "aprili", "mei", "juni", "julai", "agosti", "septemba", "oktoba", "novemba", "desemba"},
	}
}

// andWords are the words between the last two of several things, of all languages: they are only words between options.
func andWords() []string {
	return []string{"and", "و", "und", "y", "e", "et", "na", "en", "ve", "dan", "và", "и", "і", "та", "i", "oraz", "और", "ও", "এবং", "اور", "እና", "da", "àti", "ati", "和", "と"}
}

// multiplierWords are the words behind a number that make it another one, of all languages: 3 million, 1.5k. A bare m is a million as well as a meter, so it is one.
func multiplierWords() []string {
	return []string{
		"k", "m", "mn", "b", "bn", "tsd", "mio", "mrd", "mld", "lac", "lacs", "lakh", "lakhs", "cr", "crore", "crores",
		"dozen", "dozens", "hundred", "hundreds", "thousand", "thousands", "million", "millions", "billion", "billions", "trillion", "half",
		"مئة", "مائة", "الف", "الاف", "مليون", "ملايين", "مليار",
		"dutzend", "hundert", "tausend", "millionen", "milliarde", "milliarden",
		"mil", "ciento", "cientos", "docena", "docenas", "millón", "millon", "millones", "medio", "media",
		"mille", "douzaine", "douzaines", "milliard", "milliards", "demi",
		"cem", "cento", "centos", "dúzia", "dúzias", "milhão", "milhao", "milhões", "milhoes", "bilhão", "bilhões", "meio", "meia",
		"mia", "elfu", "laki", "milioni", "bilioni", "dazeni", "nusu",
		"mila", "milione", "miliardo", "miliardi", "duizend", "miljoen", "miljard", "honderd",
		"tys", "tysiąc", "tysiące", "tysięcy", "mln", "milion", "miliony", "milionów",
		"тыс", "тысяча", "тысячи", "тысяч", "млн", "миллион", "миллиона", "миллионов", "млрд", "тис", "тисяча", "тисячі", "тисяч", "мільйон", "мільйони", "мільйонів",
		"bin", "milyon", "milyar", "yüz", "rb", "ribu", "jt", "juta", "ratus", "nghìn", "ngàn", "triệu", "trăm", "tỷ",
		"सौ", "हज़ार", "हजार", "लाख", "करोड़", "হাজার", "লাখ", "লক্ষ", "কোটি", "هزار", "لاكھ", "كروڑ", "ميليون", "ميليارد",
		"መቶ", "ሺ", "ሺህ", "ሚሊዮን", "dubu", "miliyan",
	}
}

// multiplierBeginnings are those of languages that write no blanks between words: 3万円.
func multiplierBeginnings() []string {
	return []string{"十", "百", "千", "万", "萬", "億", "亿", "백", "천", "만", "억", "ร้อย", "พัน", "หมื่น", "แสน", "ล้าน"}
}

"""Which language a text is in, on sentences that were written for this and that nothing was chosen on."""

from __future__ import annotations

import time

import pytest

from variorum.tasks.language import identify, slices

SENTENCES = """
en          | The waiter forgot our drinks twice, yet the soup made up for it.
en          | I would not recommend this hotel to anyone travelling with children.
en          | Please restart the router and tell me if the light turns green.
en          | An absolutely charming little film.
en          | Terrible. Simply terrible.
en          | My parcel arrived torn open and half of it was gone!
en          | Nobody told us that the last train had been cancelled.
en          | Is there a vegetarian option on the menu?
en          | The second chapter drags, but the ending is worth every page.
en          | He's been waiting for a refund since March.
en          | These shoes run small; order one size up.
en          | Thanks a lot, works like a charm :)
en          | It rained all day, so we stayed inside and played cards.
en          | Could you send me the invoice again?
en          | Sound is fine, bass is weak, cable too short.
en          | What a waste of an evening
hi          | मुझे यह फ़िल्म बिल्कुल पसंद नहीं आई।
hi          | खाना स्वादिष्ट था लेकिन सेवा बहुत धीमी थी।
hi          | क्या आप मुझे पता बता सकते हैं?
hi          | कल बारिश की वजह से ट्रेन देर से आई।
hi          | सामान टूटा हुआ मिला, पैसे वापस चाहिए।
hi          | बहुत बढ़िया
hi          | मेरी माँ को यह साड़ी बहुत अच्छी लगी।
hi          | दुकानदार ने मुझसे ज़्यादा पैसे ले लिए।
hi          | आज मौसम सुहावना है।
hi          | इस किताब की कहानी दिल को छू जाती है।
hi          | हम लोग अगले हफ़्ते गाँव जा रहे हैं।
hi          | दवा का असर नहीं हुआ।
hi          | कृपया मेरी शिकायत जल्दी सुनिए।
hi          | बच्चों ने खूब मज़ा किया।
hi          | यह रास्ता कहाँ जाता है
hi-Latn     | Mujhe yeh gaana sunkar bachpan yaad aa gaya
hi-Latn     | tum kal kahan the, main intezaar kar raha tha
hi-Latn     | Dukandaar ne zyada paise le liye
hi-Latn     | Is kapde ka rang do din mein utar gaya
hi-Latn     | khana bahut swadisht tha, dil khush ho gaya
hi-Latn     | Humne socha tha ki achha hoga par bilkul bekaar nikla
hi-Latn     | abhi tak saamaan nahi pahuncha
hi-Latn     | Meri maa ko yeh saree bahut pasand hai
hi-Latn     | kitne baje tak khula rehta hai?
hi-Latn     | Paani garam nahi hota, kisi ne dekha tak nahi
hi-Latn     | yaar tu kuch samajhta hi nahi
hi-Latn     | Bachchon ke liye theek hai, badon ke liye nahi
hi-Latn     | ek dum mast cheez hai bhai
hi-Latn     | unhone kaha tha ki do ghante mein aayenge
hi-Latn     | Aisi ghatiya seva kahin nahi dekhi
en+hi-Latn  | Bhai the camera is awesome but battery jaldi khatam ho jaati hai
en+hi-Latn  | Maine order cancel kiya tha, still they charged me
en+hi-Latn  | service bahut slow thi and staff was rude
en+hi-Latn  | Please mera refund jaldi process karo
en+hi-Latn  | This restaurant ka biryani is the best, zaroor try karo
en+hi-Latn  | Movie ka first half accha tha but second half boring
en+hi-Latn  | I think yeh sab paise ki barbaadi hai
en+hi-Latn  | screen par scratch tha aur box open tha, not happy at all
en+hi-Latn  | Kya yaar, again same problem with the app
en+hi-Latn  | he said ki kal tak delivery ho jayegi but kuch nahi aaya
en+hi-Latn  | Sound quality ekdum bakwas hai, totally disappointed
en+hi-Latn  | Mummy ko gift diya, she loved it so much
en+hi-Latn  | Don't waste your money, bilkul bekar product hai
en+hi       | यह phone का display बहुत अच्छा है
en+hi       | Delivery late थी और packaging भी खराब थी
en+hi       | मैंने customer care को call किया लेकिन no response
en+hi       | The hotel was nice पर खाना महँगा था
en+hi       | मेरा refund अभी तक नहीं आया, please help
en+hi       | Weekend पर पूरी family के साथ trip बहुत मज़ेदार रही
en+hi       | इस app में login नहीं हो रहा
es          | La habitación estaba sucia y el desayuno llegó frío.
fr          | Le livreur a laissé le colis devant la porte sous la pluie.
de          | Wir haben zwei Stunden gewartet und dann wurde der Zug gestrichen.
it          | La stanza era piccola ma molto pulita e il personale gentile.
pt          | A comida chegou fria e ninguém atendeu o telefone.
ru          | Телефон перестал работать через неделю, деньги не вернули.
ar          | وصل الطرد متأخرا وكان المنتج مكسورا
ja          | 注文した商品がまだ届いていません。
zh          | 房间很干净，服务也很热情。
ta          | உணவு மிகவும் சுவையாக இருந்தது
"""

CASES = [tuple(part.strip() for part in line.split("|")) for line in SENTENCES.strip().splitlines()]


@pytest.mark.mechanism("X")
def test_nine_of_ten_sentences_are_told_rightly_and_of_each_kind_four_of_five() -> None:
    found = slices(text for _, text in CASES)
    wrong = [(want, one, text) for (want, text), one in zip(CASES, found, strict=True) if want != one]
    assert len(CASES) >= 60
    assert len(wrong) <= 0.1 * len(CASES), wrong
    for kind in ("en", "hi", "hi-Latn", "en+hi-Latn", "en+hi"):
        right = [one == kind for (want, _), one in zip(CASES, found, strict=True) if want == kind]
        assert sum(right) >= 0.8 * len(right), wrong


def test_a_text_says_its_scripts_and_whether_it_changes_language() -> None:
    found = identify("यह movie देखो, it is great")
    assert (found.mixed, found.name, set(found.scripts)) == (True, "en+hi", {"Devanagari", "Latin"})
    found = identify("Der Zug fährt nicht.")
    assert (found.mixed, found.languages, found.scripts) == (False, ("de",), ("Latin",))


@pytest.mark.parametrize("text", ["", "  \n", "12,345 !!! 😂", "https://a.example/b @someone #tag a1b2", "\x00"])
def test_a_text_without_words_has_no_language(text: str) -> None:
    assert identify(text).name == "none"


def test_names_addresses_and_borrowed_words_are_no_other_language() -> None:
    assert (
        identify("Rahul Sharma wrote to priya@khana.example about https://khana.example/kya/hai yesterday").name == "en"
    )
    assert identify("मेरा Samsung खराब हो गया और दुकान वाले ने मना कर दिया").name == "hi"


def test_a_megabyte_without_a_blank_takes_no_longer_than_it_should() -> None:
    begun = time.perf_counter()
    for text in ("a" * 2**20, "1a" * 2**19, "@" * 2**20, "<" * 2**20, "ま" * 2**20):
        identify(text)
    assert time.perf_counter() - begun < 5

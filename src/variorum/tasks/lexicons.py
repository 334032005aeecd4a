"""Frequent words of languages in Latin letters, by language: what :mod:`variorum.tasks.language` knows.

Function words before all, since they are in every text whatever it is about; for English and for Hindi in Latin
letters, which has no fixed spelling, also everyday words, since the two are told apart word by word.
"""

from __future__ import annotations

from functools import cache

ENGLISH = """
a about above account across actually add after again against ago all almost alone along already also although
always am amazing an and animal another answer any anyone anything app are area arrived around article as ask asked
at away awesome back bad battery be beautiful because been before began being believe best better between big book
both box boring bought boy bring broken brother build business but buy by call called came can cannot can't car
card care case cat center change charge cheap check child children city class clear close cold color come coming
company complete could couldn't country course cover customer cut day days deal delivery design did didn't
different difficult disappointed do does doesn't dog doing don't done door down drive during each early easy eat
email end english enough even evening ever every everyone everything example excellent expected experience eye face
fact fall family far fast father feel feeling few fight film finally find fine fire first five follow food for
found four free friend friends from full fun game gave get getting girl give given go god goes going gold gone good
got government great group guy had half hand happen happened happy hard has hate have haven't having he head hear
heard heart help her here hers high him himself his history hit hold home hope hot hour hours house how however
human i i'd i'll i'm i've idea if important in information inside instead interesting into is isn't issue it it's
items its itself job just keep kind knew know known lady large last late later laptop learn least leave left less
let let's letter life light like line list listen little live long look looking lose lost lot love low made mail
main make makes making man many market matter may maybe me mean meet meeting men message might mind minute minutes
miss money month months more morning most mother move movie movies mr mrs much music must my myself name near need
needs never new news next nice night no none not note nothing now number of off offer office often oh ok okay old
on once one only open or order ordered other our out outside over own paid paper part party pay people perfect
person phone picture piece place plan play please point poor possible power price problem product program put
quality question quick quite ran rather read reading ready real really reason received red refund rest result
return right road room run said same sat saw say saying says school screen second see seem seen sell send sent
service set several she short should show shows side simple since sit site six slow small so some someone something
song soon sorry sound special stand start started state still stop stopped store story street strong student such
support sure system take taken talk team tell ten than thank thanks that that's the their them then there there's
these they they're thing things think this those though thought three through time times to today together told
tomorrow tonight too took top total towards town travel tried trip true truth try trying turn two under understand
until up us use used useless user using very video view visit voice wait walk want wanted was wasn't waste watch
water way we we're weather website week weeks well went were weren't what what's when where which while white who
whole why wife will wish with within without woman women won't wonderful word words work worked working works world
worse worst worth would wouldn't write wrong year years yes yesterday yet you you're young your yours
"""

HINDI = """
aa aaj aadat aadmi aage aai aakar aakhir aana aao aap aapka aapke aapki aapko aapne aapse aata aate aati aaya aaye
aayi ab abhi accha acha achha acche ache achhe acchi achi achhi achchha achchhi adhik agar agla agle aisa aise aisi
aisay aj aur andar apna apne apni arre arey asal asli aur aurat baad baahar baar baare baat baatein baaten bachcha
bacha bachche bache bada bade badi badhiya badiya bahar bahut bohot bahot bhut bakwas bakwaas banaya banata banao
banda bande bandh band barabar barish bas batana batao bataya batayi beech bekar bekaar bhai bhaiya behen bhi bhejo
bheja bhej bhool bhukh bilkul bina bol bola bolo bole bolna bolta bolte bulaya bura bure buri chaahiye chahiye
chahie chahta chahte chahti chal chala chale chalo chalta chalti chalte chalna chaar chai char chhota chhoti chhote
chota choti chote chhod chod chor chuka chuke chuki dard darwaza dekh dekha dekhe dekhi dekhna dekho dekhta dekhte
dekhti dekhkar der dhanyavad dhanyawad dheere dhoop dhyan dikh dikha dikhao dil din diya diye diyaa di dina do dost
doston dosti dono dusra dusre dusri doosra duniya dukh ek ekdam ekdum fir phir gaadi gaana gaane gaaon gaon gali
galat galti gaya gaye gayi gai garmi ghar ghanta ghante ghatiya gussa hai hain haan han haath hafta hafte hai hain
ham hamara hamare hamari hame hamein hamesha har hee ho hoga hoge hogi hoja hokar hona hone honi hota hote hoti hua
hue hui huwa hum humko humara humare humari humein humne hun hoon hu idhar inka inke inki inko insaan intezaar
intezar is iska iske iski isko isliye isme ismein isne isse itna itne itni jaa jaake jaana jaane jaankari jaao jab
jabki jagah jaise jaisa jaisi jaldi jana jane jao jata jate jati jaata jaate jaati jaayega jayega jayenge jaunga
jaungi jeevan ji jin jis jiska jiske jiski jisme jisne jo jyada jyaada zyada zyaada ka kaafi kafi kaam kab kabhi
kaha kahan kahaan kahani kahin kahna kaho kahte kaise kaisa kaisi kal kam kar kara karain karein karen karna karne
karni karo karta karte karti karke karunga karungi karega karegi karenge kaun kon kaunsa kaunsi ke keh khaana khana
khane khao kha khaya kharab kharaab kharid kharida kharidna khatam khatm khud khush khushi ki kisi kiska kiske
kiski kisko kisne kitab kitaab kitna kitne kitni kiya kiye kiyaa ko koi kuch kuchh kyaa kya kyu kyun kyunki kyonki
kyon lag laga lage lagi lagta lagte lagti lagana lagaya ladka ladki ladke le lekar lekin lena lene leni leta lete
leti liya liye lo log logo logon maa maal maan maana maaf madad main mai maine mainne maja maza mazaa majedar
mazedar mast matlab mat mein mehnat mera mere meri mil mila mile mili milna milta milte milega milegi mujhe mujhko
mujhse mushkil na naam nahi nahin nahee nai naya naye nayi ne neeche nikal nikla pados padh padhai padhna padhta
padi padta pahle pehle pahla pehla pehli paani pani paas paise paisa paisay pakka par parantu pareshan parivaar
pata patni pati peeche peene phata phirse poora pura pure puri poori pucha puchna pyaar pyar raat raaste rasta raha
rahe rahi rahega rahenge rahna rakha rakho rakhna roz roti roko saal saare sara sare sari saari sab sabhi sabka
sabko sabse sach sacchi sahi saath sath sakta sakte sakti samay samajh samajhna samjha samjhe samaan saman sapna
sasta saste sasti se seedha shaadi shadi shaam sham shayad shuru shukriya sirf soch socha sochna sona suna sunao
sunna suno sundar subah tab tabhi tak taki tarah tarike tera tere teri tha thaa thi thik theek thoda thodi thode
thand to toh tu tujhe tum tumhara tumhare tumhari tumhe tumhein tumko tumne tumse toot tuta uddhar udhar un unhe
unhone unka unke unki unko upar us uska uske uski usko usme usne usse vaise vaapas vapas wapas wala wale wali waala
waale waali vala vale vali waise waqt wahi wahan wahaan vahan woh wo voh vo ya yaad yaar yaha yahan yahaan yahi yah
yeh ye yahin zindagi zaroor jaroor zarur zaroorat zaroori jaruri
"""

OTHERS = {
    "es": """
    a ahora al algo antes año años aquí así aunque bien bueno buena cada casa como con contra cosa cual cuando de
    del desde después día dice donde dos el él ella ellos en entre era es esa ese eso esta está están estaba este
    esto fue ha había hace hacer han hasta hay hoy la las le les lo los más me mejor mi mientras mis mucho muchos
    muy nada ni no nos nosotros nunca o otra otro para pero poco por porque puede que qué quien quiero se sea según
    ser si sí sido siempre sin sobre solo son su sus también tan tengo tiene tienen tiempo todo todos tu un una uno
    unos usted vez vida y ya yo gracias hola producto gente""",
    "fr": """
    a ai ainsi alors après au aussi autre autres aux avait avant avec avez avoir avons beaucoup bien bon bonjour
    c'est ça car ce cela celle ces cet cette chez comme d'un d'une dans de depuis des deux dit donc dont du elle
    elles en encore entre es est et était être eux fait faire fois font gens grand homme ici il ils j'ai je jour
    jusqu' l'on la là le les leur leurs lui ma mais même mes mieux moi moins mon monde n'est ne ni nos notre nous
    on ont ou où par parce pas pendant peu peut plus pour pourquoi puis qu'il qu'elle quand que quel quelle qui
    rien sa sans se ses si son sont sous suis sur ta temps toujours tous tout toute très trop tu un une va vers vie
    voir votre vous y merci""",
    "de": """
    ab aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis bist da damit
    dann das dass dein dem den denn der des dich die dies diese diesem diesen dieser doch dort du durch ein eine
    einem einen einer eines er es etwas euch für gegen gibt gut habe haben hat hatte hier hinter ich ihm ihn ihr
    ihre im immer in ins ist ja jede jetzt kann kein keine können leben machen man mehr mein meine mich mir mit
    muss nach nicht nichts noch nun nur ob oder ohne schon sehr sein seine seit sich sie sind so sollte über um und
    uns unser unter viel vom von vor war waren warum was weil wenn wer werden wie wieder wir wird wo wurde zeit zu
    zum zur zwei zwischen danke""",
    "it": """
    a abbiamo ad ai al alla alle allora anche ancora anni ao avere aveva bene c'è casa che chi ci ciò come con
    contro cosa così cui da dal dalla degli dei del della delle dello di dopo dove due e è ed era erano essere fa
    fare fatto fino fra già gli grazie ha hanno ho i il in io l'ha la le lei li lo loro lui ma mai me meglio mi mia
    mio molto ne nei nel nella nelle niente no noi non nostro o ogni ora per perché perchè però più poi prima può
    qualche quando quanto quella quello questa questo qui sarà se sei sempre senza si sia siamo solo sono sotto sta
    stato su sua sul sulla suo tra troppo tutti tutto tu un un' una uno vita voi""",
    "pt": """
    a à ainda ao aos aquela aquele às até bem bom cada casa com como contra da das de dela dele depois desde dia do
    dos e é ela elas ele eles em entre era essa esse esta está estão este eu faz fazer foi foram gente há hoje isso
    isto já lhe mais mas me melhor mesmo meu minha muito muitos na nada não nas nem no nos nós nossa nosso nunca o
    obrigado onde os ou outra outro para pela pelo pode por porque quando que quem se sem sempre ser seu seus sido
    só sobre sua suas são também te tem têm tempo tinha toda todo todos três tudo um uma vai você vocês vida""",
    "nl": """
    aan al alle alles als altijd andere ben bij daar dan dat de deze die dit doen door dus echt een eens en er gaan
    gaat geen goed had hebben heb heeft heel hem het hier hij hoe hun iets ik in is ja je jij jouw kan komen kunnen
    maar maken me meer men met mij mijn moet na naar niet niets nog nu of om omdat onder ons ook op over te tegen
    toch toen tot tussen u uit van veel voor waar was wat we wel weer werd wie wij wil willen worden wordt zal ze
    zeer zich zij zijn zo zonder zou bedankt""",
    "sv": """
    alla allt att av bara blev bli blir bra både den denna det detta de dem du då där efter ett en er eller fick
    för från får ganska ha hade han har henne hennes hon här i in ingen inte jag ju kan kommer kunde man med mer
    min mitt mot mycket måste när nu något några och om oss på sedan sig sin ska skulle som så till tack under upp
    ut vad var vara varför vi vid vill vilken är även år över""",
    "da": """
    af alle at blev blive bliver da de dem den denne der deres det dig din dog du efter ej eller en end er et for
    fra få får gik gøre ham han hans har havde hende hendes her hvad hvis hvor hvordan ikke ind ingen jeg kan kom
    kunne lige man mange med meget men mig min mit mod må ned noget nogle nok nu når og også om op os over på sagde
    sig sin skal skulle som så tak til ud under var ved vi vil ville være været år""",
    "pl": """
    a ale bardzo bez bo być był była było były ci co coś czy dla do dobrze dziękuję gdy gdzie go i ich ile im inne
    ja jak jako jednak jego jej jest jestem już kiedy kto która które który ma mam mi mnie może można mój moja na
    nad nam nas nawet nic nie niż o od on ona oni oraz po pod przed przez przy się są tak także tam te tego tej ten
    teraz też to tu tutaj tych tylko tym w wszystko z za ze że żeby""",
    "cs": """
    a aby ale ani ano až být byl byla bylo byli co či do jak jako je jeho její jejich jen ještě jsem jsme jsou k
    kde kdo když která které který ma má mě mezi mi může my na nad ne nebo není nic o od on ona pak po pod podle
    pro proto protože před při s se si své svůj tak také tam ten to toho tom tu ty už v ve velmi však vše z za ze
    že děkuji""",
    "ro": """
    a acest această aceasta acum ai al ale am ani are as asta au avea bine ca că care ce cea cel cine cu cum da dar
    de decât din după e ea ei el ele era este eu fi fost foarte fără i îi în între își la le lui mai mea meu mi
    mult mulțumesc ne nici nimic noi nu o oameni pe pentru poate prin sa să se și sunt spre sub tot toate un una
    unei unui va vor ă""",
    "hu": """
    a az és ez egy is nem hogy de már csak meg volt van vagy mint még ha el kell lehet nagyon minden én te ő mi ti
    ők azt ezt itt ott most után alatt nincs lesz lett majd sem mert jó köszönöm által illetve valamint ami aki
    amely""",
    "fi": """
    ei en et että ettei hän he hyvin hyvä ja jo jos joka jossa jotka kaikki kanssa kiitos kuin kun kuka kyllä me
    mikä mitä minä minun missä mutta myös ne niin nyt olen oli olla on ovat se sekä sen sinä siellä sitten tai tämä
    tänään tässä vain vielä voi ole olisi""",
    "tr": """
    acaba ama ancak aslında bana bazı belki ben beni benim bir biraz biz bize bizim bu bunu bunun böyle çok çünkü
    da daha de değil diye en gibi göre güzel ha hem hep her hiç için ile ilk ise iyi kadar kendi ki kim ne neden
    nasıl o olan olarak oldu olduğu olur onlar onu onun sen senin siz son sonra şey şu tüm var ve veya ya yok zaman
    teşekkürler""",
    "id": """
    ada adalah agar akan aku anda apa atau bagi bahwa baik banyak baru belum bisa bukan dalam dan dapat dari dengan
    di dia harus hanya hari ini itu jadi jika juga kalau kami kamu karena kata ke kepada kita lagi lebih mereka mau
    oleh orang pada paling saat saja sangat saya sebagai sebuah seperti sudah tapi telah tentang terima tidak untuk
    yang""",
    "vi": """
    anh bạn bị các cái cho chỉ có con còn của cũng đã đang để đến đi được em gì hay hơn khi không là lại làm lên mà
    mình một này nếu ngày người nhiều như những nhưng ở ra rất rồi sẽ sau sự tại theo thì thế tôi trong trên từ và
    vào vẫn về với cảm ơn""",
}  # fmt: skip


@cache
def lexicons() -> dict[str, frozenset[str]]:
    """Words by language, whose names are those of BCP 47."""
    return {
        "en": frozenset(ENGLISH.split()),
        "hi-Latn": frozenset(HINDI.split()),
        **{language: frozenset(words.split()) for language, words in OTHERS.items()},
    }

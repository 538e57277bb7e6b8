/** The names, languages and mail hosts of generated users. */

/** A name as it is written, and as it appears in usernames. */
type Name = readonly [written: string, plain: string];

/** Parses names such as `Zoë=zoe Anna`; a name that is also its username in lower case is written once. */
function names(list: string): Name[] {
  return list.split(' ').map((each) => {
    const [written = '', plain = written.toLowerCase()] = each.split('=');
    return [written.replaceAll('_', ' '), plain];
  });
}

/** Language, percentage of accounts, country | given names | family names. */
const nations = `
en 38 US | James Olivia Liam Emma Noah Ava Ethan Sophia Mason Mia Logan Isla Lucas Grace Henry Chloe Jack Ruby Oscar Lily Harry Freya Charlie Evie Aiden Hazel Caleb Nora Owen Violet Wyatt Stella Julian Naomi Ezra Alice Miles Ivy Felix Clara | Smith Johnson Williams Brown Jones Miller Davis Wilson Taylor Anderson Thomas Moore Martin Thompson White Harris Clark Lewis Walker Hall Young King Wright Hill Scott Green Adams Baker Carter Turner Parker Evans Collins Murphy Reed Bailey Cooper Morgan O'Brien=obrien Fitzgerald
de 16 DE | Lukas Lena Jonas Marie Finn Hannah Paul Leonie Maximilian Anna Moritz Jürgen=juergen Käthe=kaethe Björn=bjoern Sören=soeren Anja Stefan Katrin Tobias Heike Jörg=joerg Sabine Matthias Zoë=zoe | Müller=mueller Schmidt Schneider Fischer Weber Meyer Wagner Becker Schulz Hoffmann Schäfer=schaefer Koch Bauer Richter Klein Wolf Schröder=schroeder Neumann Schwarz Zimmermann Krüger=krueger Hartmann Lange Groß=gross
es 12 ES | José=jose María=maria Carlos Lucía=lucia Miguel Sofía=sofia Javier Carmen Andrés=andres Elena Raúl=raul Inés=ines Diego Paula Sergio Marta Iván=ivan Noelia Álvaro=alvaro Begoña=begona | García=garcia Fernández=fernandez González=gonzalez Rodríguez=rodriguez López=lopez Martínez=martinez Sánchez=sanchez Pérez=perez Gómez=gomez Ruiz Díaz=diaz Moreno Muñoz=munoz Álvarez=alvarez Romero Navarro Torres Domínguez=dominguez Ramos Núñez=nunez
fr 9 FR | Louis Camille Hugo Chloé=chloe Jules Léa=lea Gabriel Manon Arthur Inès=ines Raphaël=raphael Zoé=zoe Théo=theo Élise=elise François=francois Hélène=helene Benoît=benoit Aurélie=aurelie | Martin Bernard Dubois Thomas Robert Petit Durand Leroy Moreau Simon Laurent Lefèvre=lefevre Michel Garnier Faure Rousseau Blanc Guérin=guerin Boyer Chevalier
pt 7 BR | João=joao Ana Pedro Beatriz Tiago Mariana Gonçalo=goncalo Inês=ines Rafael Larissa Thiago Letícia=leticia Vinícius=vinicius Conceição=conceicao | Silva Santos Ferreira Pereira Oliveira Costa Rodrigues Almeida Nascimento Carvalho Araújo=araujo Ribeiro Conceição=conceicao Simões=simoes Magalhães=magalhaes Lourenço=lourenco
pl 5 PL | Łukasz=lukasz Agnieszka Paweł=pawel Małgorzata=malgorzata Piotr Katarzyna Michał=michal Zofia Wojciech Żaneta=zaneta | Nowak Kowalski Wiśniewski=wisniewski Wójcik=wojcik Kamiński=kaminski Lewandowski Zieliński=zielinski Szymański=szymanski Dąbrowski=dabrowski Jabłoński=jablonski
nl 4 NL | Daan Sanne Bram Femke Sem Lotte Thijs Anouk Jurre Noor Matthijs Fleur | de_Jong=dejong Jansen de_Vries=devries van_den_Berg=vandenberg Bakker Visser Smit Meijer Mulder de_Boer=deboer Bos Vos
tr 3 TR | Mehmet Ayşe=ayse Mustafa Fatma Emre Zeynep Çağlar=caglar Elif Uğur=ugur Gülşen=gulsen İbrahim=ibrahim Büşra=busra | Yılmaz=yilmaz Kaya Demir Çelik=celik Şahin=sahin Yıldız=yildiz Öztürk=ozturk Aydın=aydin Arslan Doğan=dogan
ru 3 KZ | Иван=ivan Ольга=olga Дмитрий=dmitry Анна=anna Сергей=sergey Елена=elena Алексей=alexey Наталья=natalia Юрий=yury Мария=maria | Иванов=ivanov Смирнов=smirnov Кузнецов=kuznetsov Попов=popov Соколов=sokolov Лебедев=lebedev Козлов=kozlov Новиков=novikov Морозов=morozov Волков=volkov
ja 2 JP | 太郎=taro 花子=hanako 翔太=shota 美咲=misaki 健=ken 葵=aoi 大輔=daisuke さくら=sakura | 佐藤=sato 鈴木=suzuki 高橋=takahashi 田中=tanaka 伊藤=ito 渡辺=watanabe 山本=yamamoto 中村=nakamura
vi 1 VN | Minh Linh Tuấn=tuan Hương=huong Đức=duc Thảo=thao | Nguyễn=nguyen Trần=tran Lê=le Phạm=pham Hoàng=hoang Đặng=dang
`;

export const people = nations
  .trim()
  .split('\n')
  .map((line) => {
    const [facts = '', first = '', last = ''] = line.split(' | ');
    const [language = '', share, country = ''] = facts.split(' ');
    return { language, share: Number(share), country, first: names(first), last: names(last) };
  });

/** All names are reserved for examples, so no email can ever reach anybody. */
export const mailHosts: readonly string[] = (
  'mail.example inbox.example postbox.example fastpost.example webmail.example example.com example.net example.org ' +
  'studio.example hosting.example'
).split(' ');

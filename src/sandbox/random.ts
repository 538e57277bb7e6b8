/**
 * What generated records are drawn from: random numbers, moments, names. The same seed gives the same run, so that every
 * failure can be reproduced.
 */
import { dayMs, hourMs } from '../model/time.ts';

/** Hashes two integers into 32 bits, to give every record a random stream of its own without storing one. */
export function mix(a: number, b: number): number {
  let h = Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b + 0x7f4a7c15, 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 16), 0x7feb352d);
  h = Math.imul(h ^ (h >>> 15), 0x846ca68b);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Hashes a text into 32 bits (FNV-1a), to keep the streams of different purposes apart. */
export function textHash(text: string): number {
  let h = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) h = Math.imul(h ^ text.charCodeAt(at), 0x01000193);
  return h >>> 0;
}

/** One stream of random numbers: mulberry32, whose state is a single word, so starting a stream costs nothing. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** Restarts from another seed, without allocating an object for each of millions of records. */
  restart(seed: number): void {
    this.#state = seed | 0;
  }

  /** Returns an unsigned 32-bit integer. */
  word(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  }

  /** Returns a number in [0, 1). */
  fraction(): number {
    return this.word() / 4_294_967_296;
  }

  /** Returns an integer in [0, end). */
  below(end: number): number {
    return Math.floor(this.fraction() * end);
  }

  chance(probability: number): boolean {
    return probability > 0 && this.fraction() < probability;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }
}

/** A hundred places, shared out by percentages, so that drawing one of the words is one look-up. */
export function shares(percentages: Readonly<Record<string, number>>): readonly string[] {
  return Object.entries(percentages).flatMap(([word, percent]) => Array.from({ length: percent }, () => word));
}

/** Relative number of new records in each hour of a day, from midnight UTC. */
const hourWeights = [5, 3, 2, 2, 2, 3, 5, 8, 11, 13, 14, 14, 13, 13, 14, 15, 15, 15, 16, 17, 17, 15, 11, 8];
/** Relative number of new records on each day of a week, from Sunday. */
const dayWeights = [8, 11, 12, 12, 11, 11, 9];

/** The records are spread over this many days, about three years. */
const spanDays = 1_096;

/** Writes the instant as the API does, cut to its second. */
export function stamp(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}.000000Z`;
}

/** Turns positions between 0 and 1 into moments between three years ago and now. */
export class Calendar {
  readonly #start: number;
  readonly #end: number;
  /** The share of all records that were created before each hour. */
  readonly #reached: Float64Array;
  #hour = 0;

  constructor(now: number) {
    this.#end = Math.floor(now / 1_000) * 1_000;
    this.#start = Math.floor((now - spanDays * dayMs) / hourMs) * hourMs;
    const hours = Math.ceil((this.#end - this.#start) / hourMs);
    this.#reached = new Float64Array(hours + 1);
    let sum = 0;
    for (let at = 0; at < hours; at += 1) {
      const from = this.#start + at * hourMs;
      // The epoch began on a Thursday.
      const day = dayWeights[(Math.floor(from / dayMs) + 4) % 7] ?? 1;
      const hour = hourWeights[Math.floor(from / hourMs) % 24] ?? 1;
      const share = Math.min(1, (this.#end - from) / hourMs);
      // Growth: four times as many records a day at the end as at the beginning.
      sum += day * hour * share * (1 + (3 * at) / hours);
      this.#reached[at + 1] = sum;
    }
    for (let at = 1; at <= hours; at += 1) this.#reached[at] = (this.#reached[at] ?? 0) / sum;
  }

  /** Returns the moment at the position, ms, in whole seconds. Fastest if positions rise from call to call. */
  at(position: number): number {
    if ((this.#reached[this.#hour] ?? 0) > position) this.#hour = 0;
    while ((this.#reached[this.#hour + 1] ?? 1) < position) this.#hour += 1;
    const before = this.#reached[this.#hour] ?? 0;
    const after = this.#reached[this.#hour + 1] ?? 1;
    const within = after > before ? (position - before) / (after - before) : 0;
    const from = this.#start + this.#hour * hourMs;
    const length = Math.min(hourMs, this.#end - from);
    return Math.min(this.#end, Math.floor((from + within * length) / 1_000) * 1_000);
  }
}

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

// Texts at the borders of what numbers, instants and lengths can be, where stores and languages differ.

/** Seconds: about 1970, the records of the fixture, 2^53 µs, 2^63 ns, and the longest that may be asked for. */
const timestamps = [
  ['0', '-0', '0.000000001', '-0.000000001', '-0.000001', '000000000001', '268435456'],
  ['1793491198.999999', '1793491198.999999999', '1793491199', '1793491199.000000001', '1793491199.000000999', '1793491199.000001'],
  ['9007199254.740991999', '9007199254.740992', '9007199254.740992001', '9007199254.740993', '9007199254.740993001'],
  ['-9007199254.740991999', '-9007199254.740992001', '-9007199254.740993001'],
  ['9223372036.854775', '9223372036.854775806', '9223372036.854775807', '9223372036.854775808', '9223372036.854775809'],
  ['-9223372036.854775807', '-9223372036.854775808', '-9223372036.854775809'],
  ['999999999999.999999999', '-999999999999.999999999', '9007199254740993', '1e9', '+1', '1.', '.5', '1.0000000001', ''],
].flat()

const numbers = [
  ['0', '-0', '0.0', '0e0', '-0.0e-0', '5e-324', '-5e-324', '2e-324', '1e-400', '-1e-400', '1e-9999'],
  ['1.7976931348623157e308', '1.7976931348623158e308', '-1.7976931348623157e+308', '1e309', '-1e309', '1e9999'],
  ['9007199254740991', '-9007199254740991', '-9007199254740992', '9007199254740993', '9223372036854775807', '9223372036854775808'],
  ['12345678901234567890', '123456789012345678901234567890', '1e21', '1000000000000000000000', '9'.repeat(400)],
  ['21.5', '21.50', '0.3', '0.30000000000000004', `0.${'3'.repeat(390)}`, '+1', '01', '1e', '1.', '.5', '0x10', '1e+', ''],
].flat()

/** Texts of fields of payloads: numbers as answers print them, as they are stored, and as no program prints them. */
const scalars = [
  ['', '0', '-0', '0.0', 'null', 'true', 'false', '1', '1.0', '1.5', '1.50', '1e-7', '0.0000001', '1000000000000000', '1e15'],
  ['1e+21', '1e21', '1000000000000000000000', '8659456789564231564', '8659456789564231565', '8659456789564231000'],
  ['-9223372036854775808', '-9223372036854775809', '-9223372036854776000', '9223372036854775807', '9223372036854776000'],
  ['12345678901234567000', '12345678901234567890', '12345678901234567168', '123456789012345678901234567890', '1.2345678901234568e+29'],
  ['slash', 'c', 'empty', '\\', '{}', '[]', '[1]', '"', '\u2028\u0001', 'x'.repeat(4096), '😀'.repeat(1024), '9'.repeat(4096)],
].flat()
/** Fields of the fixture with numbers, and one that is not there. */
const numberPaths = ['id', 'least', 'beyond', 'huge', 'zero', 'none']
/** Beside them, of every other type, inside lists and objects, and what stores have names or operators for. */
const otherPaths = [
  ['b', 'f', 'tiny', 'whole', 'later', 'a', 'a.9', 'a.10', 'a.z', 'a.z.0', 'a.z.1.x', 'a/b', 'a/9', 'quote"', '😀'],
  ['1-0:1.8.0', '1-0:1\\.8\\.0', 'c:\\\\.x\\.y', 'c:\\.x\\.y', 'c:\\', 'a\\z'],
  ['__proto__', '__proto__.a', 'constructor', 'toString', '$where', 'b.$ne', '/created', '_value'],
].flat()
const otherScalars = [
  '',
  '5',
  'both',
  '1',
  '1.5',
  '1e-7',
  '2',
  'true',
  'null',
  'slash',
  'c',
  '\\',
  '1000000000000000',
  '\u2028\u0001',
  '{}',
]

/** By the names of the parameters. */
export const boundaryTexts: Readonly<Record<string, readonly string[]>> = {
  offset: ['-0', '00', '+0', '0.0', '1e1', ' 1', '1', '14', '15', '100000', '100001', '9007199254740993', '9'.repeat(30), ''],
  limit: ['1', '2', '3', '15', '1000', '1001', '9999999999', '99999999999', '0', '-0', '01', '1.0', 'all', 'ALL', ''],
  from: timestamps,
  to: timestamps,
  v: numbers,
  vs: ['', ' ', 'x'.repeat(65_536), `'`.repeat(65_536), '\\'.repeat(65_536), '"'.repeat(65_536), '😀'.repeat(32_768), 'x'.repeat(100_000)],
  vd: ['', 'A', 'AA', 'AB', 'AAA', 'AAAA', 'AAAA=', '_-', '__8', 'A'.repeat(131_072), '_'.repeat(100_000)],
  name: [
    'zero',
    'Zero',
    'zero ',
    'numbеr',
    'number\u200b',
    'text',
    'x'.repeat(4096),
    '温'.repeat(4096),
    '\\'.repeat(4096),
    'x'.repeat(100_000),
  ],
  unit: ['', 'Cel', 'cel', '%RH', '%', 'x'.repeat(1024), 'x'.repeat(100_000)],
  subtopic: ['', '.', 'a', 'a.', 'A', 'küche.温度', 'ku\u0308che.温度', 'bedroom.temperature', 'x'.repeat(1024), 'x'.repeat(100_000)],
  publisher: ['', '7d5a2c1e-0000-4000-8000-000000000001', '7D5A2C1E-0000-4000-8000-000000000001', 'x'.repeat(1024), 'x'.repeat(100_000)],
  protocol: ['', 'http', 'HTTP', 'mqtt', 'x'.repeat(64), 'x'.repeat(100_000)],
  format: [
    'messages',
    'Messages',
    'weather',
    'Weather',
    'WEATHER',
    '温度',
    '温',
    'x'.repeat(1024),
    '温'.repeat(341),
    'x'.repeat(100_000),
    '',
  ],
  field: [
    'payload.b',
    'payload.a.9',
    'payload.a\\.9',
    'payload.id',
    'payload.later',
    'payload.__proto__.a',
    'payload.a.z.0',
    'payload.',
    'payload.a..b',
    'payload.a\\',
    'payload',
    'b',
    `payload.${'a.'.repeat(99)}b`,
    'Payload.b',
    '',
  ],
  interval: ['1s', '9999999s', '366d', '367d', '8784h', '8785h', '9999999d', '10000000s', '0s', '01s', '1S', '1.5h', '-1s', ''],
  cursor: ['A'.repeat(100), 'A'.repeat(60), '-', '', 'x'.repeat(100_000)],
}

/** A query, its parameters as they stand in the URL. */
export type Query = readonly (readonly [name: string, text: string])[]

const aggregated: Query = [
  ['aggregation', 'sum'],
  ['interval', '1h'],
]
const documents: Query = [['format', 'Weather']]

/** Of a field of documents. */
export const fieldQueries: readonly Query[] = [
  ...numberPaths.flatMap(path => scalars.map((text): Query => [...documents, [`payload.${path}`, text]])),
  ...otherPaths.flatMap(path => otherScalars.map((text): Query => [...documents, [`payload.${path}`, text]])),
  ...[`payload.${'k'.repeat(100_000)}`, `payload.${'a.'.repeat(63)}a`, `payload.${'a.'.repeat(64)}a`].map(
    (name): Query => [...documents, [name, '']],
  ),
  [...documents, ...Array.from({ length: 32 }, (_, nth) => [`payload.k${nth}`, '9'.repeat(4096)] as const)],
]

/** Each text in its parameter alone, and in one of the kinds of requests that it matters to, by turns; a number by a comparator. */
export const boundaryQueries: readonly Query[] = Object.entries(boundaryTexts).flatMap(([name, texts]) => {
  const [alone, ...others] = frames(name)
  return texts.flatMap((text, nth): Query[] => [alone, others[nth % others.length]!].map(frame => [...frame, [name, text]]))
})

/** What a parameter stands alone in comes first. */
function frames(name: string): readonly [Query, ...Query[]] {
  if (name === 'v') return [[], ...['lt', 'le', 'gt', 'ge'].map((comparator): Query => [['comparator', comparator]]), aggregated]
  if (name === 'from' || name === 'to') {
    return [[], [['latest', 'true']], [['limit', 'all']], aggregated, documents]
  }
  if (name === 'field') return [[], [...documents, ...aggregated], aggregated]
  if (name === 'interval') return [[['aggregation', 'sum']], [['aggregation', 'first']], [['aggregation', 'count']]]
  if (name === 'offset' || name === 'limit') return [[], [['dir', 'asc']], [['latest', 'true']], aggregated, documents]
  return [[], [['latest', 'true']]]
}

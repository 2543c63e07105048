// The messages of a load: the same plan gives the same ones, writers decode them to the rows they say, and trucks behave as those of TSBS.

import { expect, test } from 'vitest'
import { emptyMessage } from '../../../../pipeline/source.ts'
import { openDecoder } from '../../../../pipeline/writer/decode.ts'
import { type LoadMessage, type LoadPlan, messagesOf, parseMix } from '../../../../roles/tools/bench/messages.ts'
import { logPartition } from '../../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../../transformers/record-batch.ts'
import { openTransformer } from '../../../../transformers/select.ts'

const plan = (own: Partial<LoadPlan> = {}): LoadPlan => ({
  seed: 1,
  messages: 100,
  devices: 10,
  channels: 3,
  mix: { 'record-senml': 1 },
  invalidShare: 0,
  startUs: 1_760_000_000_000_000,
  stepUs: 1000.5,
  protocol: 'http',
  ...own,
})
const textOf = ({ payload }: LoadMessage): string => Buffer.from(payload).toString()
const decoder = openDecoder({
  transformer: openTransformer({ format: 'auto', contentType: 'application/senml+json', timeFields: [] }),
  subscribed: () => true,
  message: { payloadBytes: 2 ** 18, earliestSeconds: 2 ** 28, aheadDays: 366 },
})

/** The rows of a message, and the rule that it breaks. */
function decoded(message: LoadMessage): { batch: RecordBatch; rule: string | undefined } {
  const batch = new RecordBatch(1)
  const rule = decoder.decode({ ...emptyMessage(), ...message }, logPartition(0, 0), batch)?.rule
  return { batch, rule }
}

const kinds = [
  'record-senml',
  'record-cbor',
  'record-json',
  'pack-senml',
  'pack-cbor',
  'pack-json',
  'truck-senml',
  'truck-cbor',
  'truck-json',
]

test.each(kinds)('%s: a writer decodes each message to its rows, and what is invalid to none', kind => {
  const rules = new Set<string | undefined>()
  for (const message of messagesOf(plan({ mix: parseMix(kind), invalidShare: 0.2 }))) {
    const { batch, rule } = decoded(message)
    expect(batch.rowCount).toBe(message.rows)
    expect(rule === undefined).toBe(message.rows > 0)
    rules.add(rule)
  }
  expect(rules.size).toBeGreaterThan(1)
})

test('a plan gives the same messages each time, no two of them equal; another seed gives other values at the same times', () => {
  const one = plan({ mix: parseMix('record-senml=2,pack-cbor,truck-json') })
  const messages = [...messagesOf(one)]
  expect([...messagesOf(one)]).toEqual(messages)
  expect(new Set(messages.map(textOf)).size).toBe(100)
  const others = [...messagesOf({ ...one, seed: 2 })]
  expect(others.map(textOf)).not.toEqual(messages.map(textOf))
  expect(others.map(({ createdUs }) => createdUs)).toEqual(messages.map(({ createdUs }) => createdUs))
})

test('a record says its time to the microsecond, and comes from its device', () => {
  const [, second] = [...messagesOf(plan())]
  expect(second).toMatchObject({ device: 1, createdUs: 1_760_000_000_001_001, subtopic: 'bench.fleet' })
  const [record] = JSON.parse(textOf(second!)) as Record<string, unknown>[]
  expect(record).toMatchObject({ bn: 'urn:dev:ow:10e2073a01081:', bt: 1_760_000_000.001001, n: 'temperature', u: 'Cel' })
  expect(decoded(second!).batch.records.timeUs[0]).toBe(1_760_000_000_001_001)
})

test('channels and things are those of a platform if it gave any', () => {
  const [first] = messagesOf(plan({ devices: 1, channels: 1, channelIds: ['c'], thingIds: ['t'] }))
  expect(first).toMatchObject({ channel: 'c', publisher: 't' })
})

test('trucks send readings and diagnostics, of which as many are late or lack a value as in TSBS', () => {
  const trucks = 20
  const documents = [...messagesOf(plan({ mix: parseMix('truck-json'), messages: 6000, devices: trucks }))].map(
    (message): Document => ({ ...(JSON.parse(textOf(message)) as Document), format: message.subtopic.slice('bench.'.length) }),
  )
  expect(Object.keys(documents.find(({ format }) => format === 'readings')!).slice(-8, -1)).toEqual([
    'latitude',
    'longitude',
    'elevation',
    'velocity',
    'heading',
    'grade',
    'fuel_consumption',
  ])
  expect(Object.keys(documents.find(({ format }) => format === 'diagnostics')!).slice(-4, -1)).toEqual([
    'fuel_state',
    'current_load',
    'status',
  ])
  const shareOf = (isSo: (document: Document, at: number) => boolean): number => documents.filter(isSo).length / documents.length
  const lacking = shareOf(document => Object.entries(document).some(([name, value]) => value === null && !tags.has(name)))
  expect(lacking).toBeGreaterThan(0.08)
  expect(lacking).toBeLessThan(0.12)
  let newestUs = 0
  const late = shareOf(({ sent_us: timeUs }) => timeUs < (newestUs = Math.max(newestUs, timeUs)))
  expect(late).toBeGreaterThan(0.15)
  expect(late).toBeLessThan(0.25)
  const missing = 1 - 6000 / ((Math.max(...documents.map(({ sent_us: timeUs }) => timeUs)) - 1_760_000_000_000_000) / 1000.5)
  expect(missing).toBeGreaterThan(0.05)
  expect(missing).toBeLessThan(0.25)
  const latitudes = documents.flatMap(({ device, latitude }) => (device === 'truck_7' && typeof latitude === 'number' ? [latitude] : []))
  expect(Math.max(...latitudes) - Math.min(...latitudes)).toBeLessThan(2)
})

interface Document {
  readonly latitude?: number | null
  readonly format: string
  readonly device: string
  readonly sent_us: number
}
const tags = new Set(['name', 'fleet', 'driver', 'device_version', 'model', 'load_capacity', 'fuel_capacity', 'nominal_fuel_consumption'])

test('kinds that do not exist are an error that names those that do', () => {
  expect(parseMix('record-senml=70,pack-cbor=30')).toEqual({ 'record-senml': 70, 'pack-cbor': 30 })
  for (const text of ['', 'record', 'record-xml', 'record-senml=0', 'record-senml,', 'record-senml=x'])
    expect(() => parseMix(text)).toThrow('the kinds are record-senml, record-cbor, record-json, pack-senml')
})

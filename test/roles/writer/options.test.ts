// The options of the role `writer`: invalid combinations of valid options, and the names of its store.

import { expect, test } from 'vitest'
import { consumerGroup } from '../../../pipeline/kafka/topic-patterns.ts'
import { storeOptions } from '../../../roles/stores/options.ts'
import { configPathVariable, type StoreName, storeNameList, storeOf } from '../../../roles/stores/store.ts'
import { loadWriterOptions } from '../../../roles/writer/options.ts'

const relational = await storeOptions('relational')
const url = 'postgres://sluice:x7kq2m3p4d@db:5432/sluice'
const mebibyte = 1024 * 1024
const channel = '6c3f8f0e-5b1a-4d5f-9a51-0c7a2d3b4e5f'

function faultsOf(environment: Record<string, string>): string[] {
  try {
    loadWriterOptions(relational, { environment: { SVC_RELATIONAL_URL: url, SVC_WORKERS_COUNT: '2', ...environment } })
  } catch (error) {
    return (error as Error).message.split('\n').slice(1)
  }
  return []
}

test('a writer requires only its store', () => {
  expect(faultsOf({})).toEqual([])
  expect(() => loadWriterOptions(relational, { environment: {} })).toThrow(/store\.url: it is required: set SVC_RELATIONAL_URL/)
})

test('a writer of several topics, or of a pattern, must have a name, and a single topic gives one', () => {
  for (const topics of ['hall,plant', '^plant']) {
    expect(faultsOf({ SVC_LOG_TOPICS: topics })).toEqual([
      expect.stringMatching(
        /^ *log\.group: a writer of several topics, or of a pattern, needs a name, .* topics are added: set SVC_LOG_GROUP$/,
      ),
    ])
    expect(faultsOf({ SVC_LOG_TOPICS: topics, SVC_LOG_GROUP: 'plant' })).toEqual([])
  }
  expect(faultsOf({ SVC_LOG_TOPICS: 'hall' })).toEqual([])
  expect(consumerGroup('relational', 'hall', undefined)).toBe('relational.hall')
  expect(consumerGroup('relational', 'hall', 'plant')).toBe('plant')
})

test("a store has the names in SPEC and of its database, and its file's variable", () => {
  expect(['relational', 'postgres', 'postgresql', ''].map(storeOf)).toEqual(['relational', 'relational', undefined, undefined])
  expect(['cassandra', 'influxdb', 'mongodb'].map(storeOf)).toEqual(['widecolumn', 'timeseries', 'document'])
  expect(configPathVariable('writer', 'relational')).toBe('SVC_RELATIONAL_WRITER_CONFIG_PATH')
  expect(configPathVariable('reader', 'document')).toBe('SVC_DOCUMENT_READER_CONFIG_PATH')
})

test.each([
  ['of invalid subjects', { SVC_SUBSCRIBER_SUBJECTS: 'channels.>.x' }, /subscriber\.subjects: .*only the last part may be ">"/],
  [
    'of memory that does not hold the queues',
    { SVC_WORKERS_MEMORY_BYTES: String(32 * mebibyte) },
    /workers\.memory_bytes: queues and batches of 2 workers add up to \d+ MiB, above workers\.memory_bytes of 32 MiB: lower workers\.count/,
  ],
  [
    'of memory that holds the queues of fewer workers',
    { SVC_WORKERS_COUNT: '200' },
    /workers\.memory_bytes: queues and batches of 200 workers add up to \d+ MiB, above workers\.memory_bytes of \d+ MiB: lower workers\.count/,
  ],
  ['of a queue below an answer', { SVC_CONSUMER_QUEUE_BYTES: '1048576' }, /consumer: .*queue_bytes of 1048576 is below .*fetch_bytes/],
  ['of rare heartbeats', { SVC_CONSUMER_HEARTBEAT_MS: '5000' }, /consumer: .*fewer than three heartbeats/],
  ['of a store that cannot be read', { SVC_RELATIONAL_URL: 'postgres://x:hidden@[/z' }, /store\.url: cannot be read: give a URL such as/],
  ['of a password with a bare %', { SVC_RELATIONAL_URL: 'postgres://x:hidden%@db/z' }, /store\.url: its password contains a % that is not/],
  ['of a store of another kind', { SVC_RELATIONAL_URL: 'mysql://x:hidden@db/z' }, /store\.url is set \(value not shown\): give a URL/],
  [
    'of content types that the format does not read',
    { SVC_TRANSFORMER_FORMAT: 'senml', SVC_TRANSFORMER_CONTENT_TYPES: 'application/senml+json,application/json' },
    /transformer\.content_types: it takes application\/json, which the format senml does not read/,
  ],
  ['of an encoding without its registry', { SVC_LOG_ENCODING: 'confluent' }, /log\.registry: .*needs a schema registry/],
  [
    'of a known password in production',
    { SVC_ENV: 'production', SVC_RELATIONAL_URL: 'postgres://sluice:postgres@db/z' },
    /store\.url: with env = production it must not be a publicly known secret/,
  ],
  [
    'of a known password in the query',
    { SVC_ENV: 'production', SVC_RELATIONAL_URL: 'postgres://sluice@db/z?password=changeme' },
    /store\.url: with env = production it must not be a publicly known secret/,
  ],
])('a fault %s is reported with what to do', (_name, environment: Record<string, string>, text) => {
  const found = faultsOf(environment)
  expect(found).toEqual([expect.stringMatching(text)])
  expect(found.join()).not.toMatch(/hidden|changeme|:postgres@/)
})

test.each<[Record<string, string>, readonly RegExp[]]>([
  [{ SVC_STORE_RETENTION_CHANNELS: 'a:1,b:c:99999', SVC_STORE_RETENTION_FORMATS: 'a:1' }, []],
  [{ SVC_STORE_RETENTION_CHANNELS: 'a' }, [/store\.retention_channels.*"a".*`<channel>:<days>` with 1 to 99999 days/]],
  [{ SVC_STORE_RETENTION_FORMATS: 'engine:0' }, [/store\.retention_formats.*`<format>:<days>` with 1 to 99999 days/]],
  [{ SVC_STORE_RETENTION_CHANNELS: 'a:100000' }, [/1 to 99999 days/]],
  [
    { SVC_STORE_RETENTION_CHANNELS: Array.from({ length: 101 }, (_, nth) => `c${nth}:1`).join(',') },
    [/retention_channels.*at most 100 items/],
  ],
  [
    { SVC_STORE_RETENTION_CHANNELS: `${channel}:1,b:1,${channel.toUpperCase()}:2`, SVC_STORE_RETENTION_FORMATS: 'b:1,b:1' },
    [new RegExp(`^ *store\\.retention_channels: it has "${channel}" twice: name it once$`), /retention_formats: it has "b" twice/],
  ],
  [
    { SVC_STORE_RETENTION_MONTHS: '1', SVC_STORE_RETENTION_CHANNELS: 'a:31,b:32', SVC_STORE_RETENTION_FORMATS: 'c:365' },
    [
      /retention_channels: it keeps "b" for 32 days, but store\.retention_months is 1, after which all messages are deleted: give a shorter time, or raise that$/,
      /retention_formats: it keeps "c" for 365 days, but/,
    ],
  ],
])('a retention of channels and formats: %j', (environment, texts) => {
  expect(faultsOf(environment)).toEqual(texts.map(text => expect.stringMatching(text) as string))
})

test('all faults are reported together', () => {
  const wrong = { SVC_SUBSCRIBER_SUBJECTS: 'channels.>.x', SVC_WORKERS_COUNT: '200', SVC_RELATIONAL_URL: 'postgres://x:y@[/z' }
  expect(faultsOf(wrong).map(fault => fault.trim().split(':')[0])).toEqual(['subscriber.subjects', 'workers.memory_bytes', 'store.url'])
})

test.each([
  ['document', 'mongodb://mongo/sluice', 'mongodb://you:y3t9w1@mongo/sluice'],
  ['widecolumn', 'cassandra://db/sluice', 'cassandra://you:y3t9w1@db/sluice'],
] as const)('a user without password or the reverse is a fault, and the URL completes it: %s', async (name, bare, whole) => {
  const kind = await storeOptions(name)
  const load = (url: string, some: Record<string, string>) =>
    loadWriterOptions(kind, { environment: { [`SVC_${name.toUpperCase()}_URL`]: url, ...some } })
  expect(() => load(bare, { SVC_STORE_USER: 'me' })).toThrow(/store\.user: its user has no password/)
  expect(() => load(bare, { SVC_STORE_PASSWORD: 'x7kq2m3p4d' })).toThrow(/store\.password: it has no user/)
  expect(() => load(bare, { SVC_STORE_USER: 'me', SVC_STORE_PASSWORD: 'x7kq2m3p4d' })).not.toThrow()
  expect(() => load(whole, { SVC_STORE_USER: 'me' })).not.toThrow()
  expect(() => load(bare.replace('://', '://you@'), { SVC_STORE_PASSWORD: 'x7kq2m3p4d' })).not.toThrow()
})

const urls: Readonly<Record<StoreName, Record<string, string>>> = {
  relational: { SVC_RELATIONAL_URL: url },
  widecolumn: { SVC_WIDECOLUMN_URL: 'cassandra://node-1,node-2:9043/sluice?dc=datacenter1' },
  timeseries: { SVC_TIMESERIES_URL: 'http://influx:8086/?org=acme&bucket=sluice', SVC_TIMESERIES_TOKEN: 'x7kq2m3p4d' },
  document: { SVC_DOCUMENT_URL: 'mongodb://sluice:x7kq2m3p4d@mongo:27017/sluice' },
}

test.each(['widecolumn', 'timeseries', 'document'] as const)('a retention above that of the store is a fault: %s', async name => {
  const environment = { ...urls[name], SVC_STORE_RETENTION_DAYS: '30', SVC_STORE_RETENTION_CHANNELS: 'a:30,b:31' }
  const kind = await storeOptions(name)
  expect(() => loadWriterOptions(kind, { environment })).toThrow(/: it keeps "b" for 31 days, but store\.retention_days is 30,[^\n]*$/)
})

test.each<[Record<string, string>, RegExp]>([
  [{ SVC_LOG_TOPICS: 'hall,plant' }, /log\.numbers: InfluxDB needs a number for each topic, .*: give 2, in the order of log\.topics$/],
  [{ SVC_LOG_TOPICS: 'hall,plant', SVC_LOG_NUMBERS: '1,1' }, /log\.numbers: InfluxDB needs a number for each topic/],
  [{ SVC_LOG_NUMBERS: '1,2' }, /log\.numbers: .*: give 1, in the order of log\.topics$/],
  [{ SVC_LOG_TOPICS: 'hall,^plant', SVC_LOG_NUMBERS: '1,2' }, /log\.topics: InfluxDB cannot number the topics of a pattern: name each/],
])('a writer to InfluxDB has a number for each topic, and no pattern: %j', async (environment, fault) => {
  const kind = await storeOptions('timeseries')
  const given = { ...urls.timeseries, SVC_LOG_GROUP: 'plant' }
  expect(() => loadWriterOptions(kind, { environment: { ...given, ...environment } })).toThrow(fault)
  const numbers = { SVC_LOG_TOPICS: 'hall,plant', SVC_LOG_NUMBERS: '3,1' }
  expect(loadWriterOptions(kind, { environment: { ...given, ...numbers } }).log.numbers).toEqual([3, 1])
})

test('a writer to another store has no numbers', () => {
  expect(faultsOf({ SVC_LOG_NUMBERS: '1' })).toEqual([expect.stringMatching(/log\.numbers: this store chooses them itself: remove it$/)])
})

test.each(storeNameList)('a writer with a %s store requires only its address', async name => {
  const kind = await storeOptions(name)
  expect(loadWriterOptions(kind, { environment: urls[name] })).toMatchObject({ store: {} })
  const variable = Object.keys(urls[name])[0]!
  expect(() => loadWriterOptions(kind, { environment: {} })).toThrow(new RegExp(`store\\.url: it is required: set ${variable}`))
})

test.each(storeNameList)('an invalid URL of a %s store is reported, without its text', async name => {
  const kind = await storeOptions(name)
  const environment = { ...urls[name], [Object.keys(urls[name])[0]!]: 'foo://x:hidden@[/z' }
  expect(() => loadWriterOptions(kind, { environment })).toThrow(/store\.url/)
  expect(() => loadWriterOptions(kind, { environment })).not.toThrow(/hidden/)
})

test.each(storeNameList.filter(name => name !== 'widecolumn'))('a publicly known secret is refused in production: %s', async name => {
  const kind = await storeOptions(name)
  const environment = Object.fromEntries(Object.entries(urls[name]).map(([key, value]) => [key, value.replace('x7kq2m3p4d', 'changeme')]))
  expect(() => loadWriterOptions(kind, { environment: { SVC_ENV: 'production', ...environment } })).toThrow(
    /store\.(url|token): with env = production/,
  )
})

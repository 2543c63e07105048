// One poisoned message in a batch of 5,000, through a whole writer: only that one is dead-lettered, unchanged and with the reason.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type KafkaLog, openKafkaLog } from '../../pipeline/kafka/log.ts'
import type { OutgoingMessage } from '../../pipeline/log.ts'
import { logSettings, readTopic, type StoredMessage, silent } from '../pipeline/kafka/stored-messages.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/install/kafka.ts'
import { missingPostgres } from '../servers/install/postgres.ts'
import { untilReady, type WriterProcess } from './process.ts'
import { openSite, type Site, shortWaits, writerName } from './site.ts'
import type { RelationalSite } from './stores/relational.ts'

const batchLength = 5_000
const places = [
  ['first', 0],
  ['in the middle', 2_345],
  ['last', batchLength - 1],
] as const

interface Poison {
  readonly message: Partial<OutgoingMessage>
  readonly headers: Readonly<Record<string, string>>
}

/** All payloads have this length, so that exactly a batch of messages reaches `batchBytes`. */
const payloadBytes = 300
/** In a batch each message counts 256 bytes more. */
const batchBytes = batchLength * (payloadBytes + 256)
const encoder = new TextEncoder()
const padded = (text: string): Uint8Array => encoder.encode(text.padEnd(payloadBytes))
const pack = (record: object): Uint8Array => padded(JSON.stringify([record]))
const transformer = { '__connect.errors.stage': 'VALUE_CONVERTER', '__connect.errors.class.name': 'transformer' }
const sink = { '__connect.errors.stage': 'TASK_PUT', '__connect.errors.class.name': 'sink' }

const poisons: Readonly<Record<string, Poison>> = {
  'that cannot be decoded': {
    message: { payload: padded('[{"n":"poison","v":') },
    headers: { ...transformer, 'sluice.rule': 'json-syntax' },
  },
  'with a NUL in a text': {
    message: { payload: pack({ n: 'poison', vs: 'a\0b' }) },
    headers: { ...transformer, 'sluice.rule': 'text-nul', 'sluice.record': '0' },
  },
  'with a clock in the year 2200': {
    message: { payload: pack({ n: 'poison', t: Date.UTC(2200, 0, 1) / 1000, v: 1 }) },
    headers: { ...transformer, 'sluice.rule': 'time-range', 'sluice.record': '0' },
  },
  'with a name that its column does not hold': {
    message: { payload: pack({ n: `poison-${'x'.repeat(60)}`, v: 1 }) },
    headers: { ...sink, 'sluice.rule': 'store-refused', 'sluice.record': '0' },
  },
  'with an id that is too long': {
    message: { publisher: 'p'.repeat(2_100), payload: pack({ n: 'poison', v: 1 }) },
    headers: { ...transformer, 'sluice.rule': 'identifier-length' },
  },
  'without a key': {
    message: { channel: '', payload: pack({ n: 'poison', v: 1 }) },
    headers: { ...transformer, '__connect.errors.stage': 'KEY_CONVERTER', 'sluice.rule': 'no-key' },
  },
}

function good(number: number): OutgoingMessage {
  return {
    channel: `channel-${number % 7}`,
    subtopic: 'plant.line',
    publisher: 'thing-1',
    protocol: 'http',
    contentType: 'application/senml+json',
    createdUs: Date.now() * 1000,
    createdRestNs: 0,
    payload: pack({ n: `m${number}`, v: number }),
    headers: [{ key: 'sent-by', value: 'a gateway' }],
  }
}

describeUnlessMissing('a batch of 5,000 messages', missingKafka() ?? missingPostgres(), () => {
  let site: Site<RelationalSite>
  let log: KafkaLog
  let writer: WriterProcess
  let offset = 0

  beforeAll(async () => {
    // One partition, and batches that end by their bytes, with the last message that is appended.
    const environment = {
      ...shortWaits,
      SVC_WORKERS_COUNT: '1',
      SVC_BATCH_ROWS: '20000',
      SVC_BATCH_BYTES: String(batchBytes),
      SVC_BATCH_AGE_MS: '60000',
      SVC_WORKERS_MEMORY_BYTES: String(1 << 30),
    }
    site = await openSite({ partitions: 1, environment })
    writer = await site.start(0)
    log = await openKafkaLog(logSettings(site.kafka.brokers, site.topic), silent)
    await untilReady(writer)
    // Added by an operator; the writer's own columns accept whatever passes the transformer.
    await site.store.query(
      `CREATE FUNCTION short_names() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         IF (SELECT length(name) FROM sluice.series WHERE id = NEW.series) > 60 THEN RAISE 'the name is too long' USING ERRCODE = '22001'; END IF;
         RETURN NEW;
       END $$;
       CREATE TRIGGER short_names BEFORE INSERT ON sluice.records FOR EACH ROW EXECUTE FUNCTION short_names()`,
    )
  })
  afterAll(async () => {
    await log.close()
    await site.close()
  })

  // Each way of finding a message is tested at all places, other rules of that way at one.
  const ways = new Set(['json-syntax', 'store-refused'])
  const cases = Object.entries(poisons).flatMap(([what, poison], nth) =>
    places
      .filter((_, place) => ways.has(poison.headers['sluice.rule']!) || place === nth % places.length)
      .map(([where, at]) => ({ what, where, at, poison })),
  )
  test.each(cases)('one $what, $where: only that one is a dead letter', async ({ at, poison }) => {
    const from = offset
    const messages = Array.from({ length: batchLength }, (_, number) =>
      number === at ? { ...good(number), ...poison.message } : good(number),
    )
    const positions = await log.append(messages)
    offset += batchLength
    expect(positions[at]!.offset).toBe(from + at)
    expect(await site.untilStored(new Map([[0, offset]]))).toBe(true)

    const missing = await site.store.query<{ missing: number }>(
      `SELECT nth::float8 AS missing FROM generate_series(${from}, ${offset - 1}) AS nth
       WHERE NOT EXISTS (SELECT FROM public.messages WHERE position & 17592186044415 = nth AND name = 'm' || nth - ${from} AND value = nth - ${from})`,
    )
    expect(missing).toEqual([{ missing: from + at }])
    const [rows] = await site.store.query<{ rows: number; transactions: number }>(
      `SELECT count(*)::int AS rows, count(DISTINCT xmin::text)::int AS transactions FROM sluice.records WHERE position & 17592186044415 >= ${from}`,
    )
    expect(rows!.rows).toBe(batchLength - 1)
    // Messages that the store refuses are found under savepoints, which have their own numbers.
    if (poison.headers['sluice.rule'] !== 'store-refused') expect(rows!.transactions).toBe(1)

    const deadLetters = (await readTopic(site.kafka.brokers, `${site.topic}.dead-letters.${writerName}`)).filter(
      deadLetter => textOf(deadLetter, 'sluice.offset') >= from,
    )
    expect(deadLetters).toHaveLength(1)
    const [deadLetter] = deadLetters
    const sent = messages[at]!
    expect(deadLetter!.key?.toString() ?? '').toBe(sent.channel)
    expect(deadLetter!.value.equals(sent.payload)).toBe(true)
    const headers = Object.fromEntries(deadLetter!.headers.map(([name, value]) => [name, value?.toString()]))
    expect(headers).toMatchObject({
      'sent-by': 'a gateway',
      publisher: sent.publisher,
      subtopic: sent.subtopic,
      protocol: 'http',
      'content-type': sent.contentType,
      '__connect.errors.topic': site.topic,
      '__connect.errors.partition': '0',
      '__connect.errors.offset': String(from + at),
      '__connect.errors.connector.name': writerName,
      '__connect.errors.exception.class.name': poison.headers['sluice.rule'],
      'sluice.log': '1',
      'sluice.partition': '0',
      'sluice.offset': String(from + at),
      ...poison.headers,
    })
    expect(headers['__connect.errors.exception.message']).not.toBe('')
  })

  test('afterwards the ledger and sluice verify agree', async () => {
    const batches = cases.length
    expect(await site.store.books()).toMatchObject([
      { next_offset: batches * batchLength, stored: batches * (batchLength - 1), dead_lettered: batches, duplicate: 0 },
    ])
    expect(await site.verify()).toMatchObject({ code: 0 })
    expect(await site.stop(0)).toBe(0)
  })
})

function textOf({ headers }: StoredMessage, name: string): number {
  return Number(headers.findLast(([found]) => found === name)?.[1]?.toString())
}

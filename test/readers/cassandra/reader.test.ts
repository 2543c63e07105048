// The Cassandra reader over a driver that is none: what it sends for any query, and how it ends.

import { getEventListeners } from 'node:events'
import type { Client } from 'cassandra-driver'
import * as fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { openCassandraReader } from '../../../readers/cassandra/reader.ts'
import { type Filter, type PageQuery, QueryTooLargeError, type Reader, StoreUnavailableError } from '../../../readers/reader.ts'
import { type Connection, openConnection } from '../../../sinks/cassandra/connection.ts'
import { ownTables } from '../../../sinks/cassandra/schema.ts'
import { aggregateQuery, formatsQuery, pageQuery } from '../../conformance/reader/index.ts'
import { readerOptions } from './site.ts'

type Execute = (
  cql: string,
  values: readonly unknown[],
  options: { prepare?: boolean; fetchSize?: number },
) => Promise<{ rows: object[]; pageState: string | null }>

async function readerOver(execute: Execute, queryTimeoutMs = 30_000): Promise<Reader> {
  const connection = await openConnection(readerOptions('cassandra://127.0.0.1:1/k'), 'reader')
  const instead: Connection = { ...connection, client: async () => ({ execute }) as unknown as Client }
  return openCassandraReader({ connection: instead, options: { queryTimeoutMs } })
}

const never = new AbortController().signal
const day = { day: { toBuffer: () => Buffer.from([0x80, 0, 0x50, 0]) } }
const row = { format: 'messages', time_us: 1n, created: 1n, position: 1n, index: 0, publisher: 'p', subtopic: '', name: 'n', payload: '{}' }
const nothingMore = { pageState: null }

describe('statements', () => {
  interface Sent {
    readonly cql: string
    readonly values: readonly unknown[]
  }

  /** Whatever a reader can be asked, of a store in which each query finds a day and a row. */
  async function sentFor(filter: Partial<Filter>, page: Partial<PageQuery>): Promise<Sent[]> {
    const sent: Sent[] = []
    const reader = await readerOver(async (cql, values) => {
      sent.push({ cql, values })
      return { rows: cql.startsWith('SELECT day') ? [day] : [row], ...nothingMore }
    })
    const query = pageQuery({ ...filter, ...page })
    await reader.read(query, never)
    await reader.count(query, 3, never)
    await reader.latest({ ...query, offset: 0 }, never)
    if (query.format === 'messages') {
      await reader.aggregate(aggregateQuery(filter), never)
      await reader.formats(formatsQuery({ channel: query.channel, publisher: query.publisher }), never)
    }
    return sent.filter(({ cql }) => cql !== 'SELECT format FROM "k"."sluice_formats"')
  }

  const text = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 20 }),
    fc.constantFrom("'; DROP TABLE messages; --", '"', '? AND ?', "' ALLOW FILTERING", '$$', '\\', '\u0000', 'x'.repeat(30_000)),
  )
  const optional = <Value>(arbitrary: fc.Arbitrary<Value>) => fc.option(arbitrary, { nil: undefined })
  const timestamp = fc.bigInt({ min: -(10n ** 18n), max: 10n ** 18n })
  const filters = fc.record({
    channel: text,
    publisher: optional(text),
    subtopic: optional(text),
    protocol: optional(text),
    name: optional(text),
    unit: optional(text),
    fromNs: optional(timestamp),
    toNs: optional(timestamp),
    value: optional(fc.constant({ comparator: 'lt' as const, number: 1 })),
    boolValue: optional(fc.boolean()),
    stringValue: optional(text),
    dataValue: optional(fc.uint8Array()),
  })
  const pages = fc.record({
    direction: fc.constantFrom('asc' as const, 'desc' as const),
    limit: fc.integer({ min: 1, max: 1000 }),
    offset: fc.integer({ min: 0, max: 3 }),
    after: optional(fc.record({ timeNs: timestamp, position: fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), index: fc.nat(1000) })),
  })

  test('every statement has the channel as a value, except the one for all formats, reads by keys, and contains no text of a query', async () => {
    await fc.assert(
      fc.asyncProperty(filters, pages, async (filter, page) => {
        for (const { cql, values } of await sentFor(filter, page)) {
          expect(values[0]).toBe(filter.channel)
          expect(cql).toMatch(
            /^SELECT [\w", ]+ FROM "k"\."(messages|sluice_channel_days|sluice_publisher_days)" WHERE channel = \? AND [\w"=<>?(), \n]+$/,
          )
          expect(cql).not.toMatch(/FILTERING/i)
          expect(cql.match(/\?/g)).toHaveLength(values.length)
        }
      }),
      { numRuns: 200 },
    )
  })

  test('the text of a statement depends on which filters are set, and never on their values', async () => {
    const textsOf = (sent: readonly Sent[]): Set<string> => new Set(sent.map(({ cql }) => cql))
    await fc.assert(
      fc.asyncProperty(filters, filters, pages, async (one, other, page) => {
        // One that is too long for the index is looked for otherwise.
        fc.pre([one, other].every(({ publisher = '' }) => publisher.length <= 300))
        // The filters of the one with the values of the other. Ranges that hold nothing are not asked for: there are none.
        const open = { fromNs: undefined, toNs: undefined }
        const [left, right] = [
          { ...one, ...open },
          { ...one, ...open },
        ]
        for (const name of ['channel', 'publisher', 'subtopic', 'protocol', 'name', 'unit', 'stringValue'] as const) {
          if (one[name] !== undefined) Object.assign(right, { [name]: other[name] ?? '' })
        }
        const plain = { ...page, after: undefined, offset: 0 }
        const [leftTexts, rightTexts] = [textsOf(await sentFor(left, plain)), textsOf(await sentFor(right, plain))]
        // What matches is read whole by its key: with other values nothing may match.
        for (const sent of [leftTexts, rightTexts]) for (const cql of sent) if (cql.includes(' IN ')) sent.delete(cql)
        expect(rightTexts).toEqual(leftTexts)
      }),
      { numRuns: 100 },
    )
  })

  const whosePublisher = (sent: readonly Sent[]): unknown[] =>
    sent
      .filter(({ cql }) => / FROM "k"\."messages" WHERE channel = \? AND day = \? AND publisher = \? /.test(cql))
      .map(({ values }) => values[2])

  test('the newest of one publisher are read by the index; others are skipped by their keys', async () => {
    const newest = await sentFor({ channel: 'c', publisher: 'p' }, { direction: 'desc', offset: 0 })
    expect(whosePublisher(newest)).toEqual(['p'])
    const long = 'x'.repeat(2_000)
    const walked = [
      await sentFor({ channel: 'c', publisher: 'p' }, { direction: 'asc', offset: 0 }),
      await sentFor({ channel: 'c', publisher: long }, { direction: 'desc', offset: 0 }),
      await sentFor({ channel: 'c', name: 'n' }, { direction: 'desc', offset: 0 }),
    ]
    for (const sent of walked) {
      expect(whosePublisher(sent)).toEqual([])
      for (const { cql } of sent.filter(({ cql }) => cql.includes('string_value'))) expect(cql).toContain(' IN ((?, ?, ?), ')
    }
  })

  test("a format's table has only harmless characters, and no name of sluice's tables", async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(text, fc.constantFrom('sluice_logs', 'Messages', 'system.local', 'k.messages')), async format => {
        fc.pre(format !== 'messages' && format !== '')
        for (const { cql, values } of await sentFor({ channel: 'c', format, payload: [{ path: [format], text: format }] }, {})) {
          const [, table] = / FROM "k"\."([A-Za-z0-9_]{1,48})" WHERE /.exec(cql)!
          if (!cql.startsWith('SELECT day')) expect(ownTables.map(({ name }) => name)).not.toContain(table)
          expect(values[0]).toBe('c')
        }
      }),
      { numRuns: 100 },
    )
  })

  test('a value that the store cannot hold is not queried', async () => {
    for (const filter of [{ channel: 'a\ud800' }, { channel: 'x'.repeat(70_000) }, { channel: 'c', format: 'f'.repeat(65_501) }]) {
      expect(await sentFor(filter, {})).toEqual([])
    }
    expect(await sentFor({ channel: 'c', publisher: '\udfff' }, {})).toEqual([])
  })
})

const failure = (name: string, message: string, code?: number): Error => Object.assign(new Error(message), { name, code })

describe('the end of a query', () => {
  const silent: Execute = () => new Promise(() => undefined)
  const endless: Execute = async cql => {
    await new Promise(setImmediate)
    return { rows: cql.startsWith('SELECT day') ? [day] : [row], pageState: 'more' }
  }
  const unmatched = pageQuery({ name: 'none' })

  test.each([
    ['silent', silent],
    ['busy with it', endless],
  ])('a caller that goes away gets an error at once from a store that is %s', async (_how, execute) => {
    const reader = await readerOver(execute)
    const going = new AbortController()
    const queries = [
      reader.read(unmatched, going.signal),
      reader.count(unmatched, 10, going.signal),
      reader.latest(unmatched, going.signal),
      reader.aggregate(aggregateQuery({ name: 'none' }), going.signal),
    ]
    const settled = Promise.allSettled(queries)
    await new Promise(setImmediate)
    going.abort(new Error('gone'))
    for (const one of await settled) expect(one).toMatchObject({ status: 'rejected', reason: { message: 'gone' } })
    expect(getEventListeners(going.signal, 'abort')).toEqual([])
  })

  test('nothing more is sent when the caller has gone away', async () => {
    let requests = 0
    const going = new AbortController()
    const reader = await readerOver(async (cql, values) => {
      if (++requests === 20) going.abort(new Error('gone'))
      return await endless(cql, values, {})
    })
    await expect(reader.count(unmatched, 10, going.signal)).rejects.toThrow('gone')
    const asked = requests
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate)
    expect(requests).toBe(asked)
  })

  test('a query that takes too long is too large; if the store is silent, it is unavailable', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] })
    onTestFinished(() => void vi.useRealTimers())
    /** The time passes before an answer. */
    const after =
      (ms: number, execute: Execute): Execute =>
      (...asked) => {
        setImmediate(() => vi.advanceTimersByTime(ms))
        return execute(...asked)
      }
    const tooLong = (await readerOver(after(20, endless), 100)).read(unmatched, never)
    await expect(tooLong).rejects.toBeInstanceOf(QueryTooLargeError)
    await expect(tooLong).rejects.toThrow(/narrow it with name, publisher, from or to/)
    const unanswered = (await readerOver(after(100, silent), 100)).read(unmatched, never)
    await expect(unanswered).rejects.toBeInstanceOf(StoreUnavailableError)
    await expect((await readerOver(after(100, silent), 100)).check()).rejects.toThrow(/no answer within 100 ms/)
  })

  test('an answered query leaves no listener', async () => {
    const { signal } = new AbortController()
    const reader = await readerOver(async () => ({ rows: [], ...nothingMore }))
    expect(await reader.read(pageQuery(), signal)).toEqual([])
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  test.each([
    ['none', 0x2200, 'Cannot execute this query as it might involve data filtering'],
    ['one that is still being made', 0x1300, 'Server failure during read query'],
  ])('a store whose index by publisher is %s is read without it, and it is tried again from time to time', async (_what, code, message) => {
    const asked: string[] = []
    const reader = await readerOver(async cql => {
      asked.push(cql)
      if (cql.includes('publisher = ? AND (')) throw failure('ResponseError', message, code)
      return { rows: cql.startsWith('SELECT day') ? [day] : [row], ...nothingMore }
    })
    for (let nth = 0; nth < 3; nth++) {
      expect(await reader.read(pageQuery({ publisher: 'p', direction: 'desc' }), never)).toMatchObject([{ publisher: 'p', name: 'n' }])
      expect(await reader.read(pageQuery({ publisher: 'q', direction: 'desc' }), never)).toEqual([])
    }
    expect(asked.filter(cql => cql.includes('publisher = ? AND ('))).toHaveLength(1)
  })

  test('a query by the index that fails midway continues where it was, without the index', async () => {
    const rows = Array.from({ length: 300 }, (_, nth) => ({ ...row, time_us: BigInt(1000 - nth), value: nth }))
    let pages = 0
    const reader = await readerOver(async (cql, values) => {
      if (cql.startsWith('SELECT day')) return { rows: [day], ...nothingMore }
      const before = values.findLast(value => typeof value === 'bigint' && value > 600n && value <= 1000n) as bigint | undefined
      if (!cql.includes('publisher = ? AND (')) {
        const left = rows.filter(({ time_us }) => (cql.includes(' IN ') ? values.includes(time_us) : time_us < (before ?? 1001n)))
        return { rows: left, ...nothingMore }
      }
      if (++pages > 1) throw failure('ResponseError', 'Server failure during read query', 0x1300)
      return { rows: rows.slice(0, 100), pageState: 'more' }
    })
    const found = await reader.read(pageQuery({ publisher: 'p', direction: 'desc', limit: 250 }), never)
    expect(found.map(one => (one as { value: number }).value)).toEqual(Array.from({ length: 250 }, (_, nth) => nth))
  })

  test('a filter of the payload begins with few documents, however many rows are requested', async () => {
    const pages: (number | undefined)[] = []
    const reader = await readerOver(async (cql, _values, { prepare, fetchSize }) => {
      if (cql.startsWith('SELECT day')) return { rows: [day], ...nothingMore }
      if (prepare !== false) pages.push(fetchSize)
      return { rows: [row], ...nothingMore }
    })
    const payload = [{ path: ['a'], text: 'b' }]
    expect(await reader.read(pageQuery({ format: 'weather', payload, limit: 1000 }), never)).toEqual([])
    expect(pages).toEqual([64])
  })

  test('only rows of the page are read whole, and a deleted one makes room for the next', async () => {
    const rows = Array.from({ length: 40 }, (_, nth) => ({ ...row, name: nth % 2 === 0 ? 'n' : 'other', time_us: BigInt(1000 - nth) }))
    const whole: bigint[] = []
    const reader = await readerOver(async (cql, values) => {
      if (cql.startsWith('SELECT day')) return { rows: [day], ...nothingMore }
      if (!cql.includes(' IN '))
        return { rows: rows.map(({ time_us, position, index, name }) => ({ time_us, position, index, name })), ...nothingMore }
      const some = rows.filter(({ time_us }) => values.includes(time_us)).toSorted((one, other) => Number(other.time_us - one.time_us))
      whole.push(...some.map(({ time_us }) => time_us))
      return { rows: some.filter(({ time_us }) => time_us !== 998n), ...nothingMore }
    })
    const found = await reader.read(pageQuery({ name: 'n', direction: 'desc', limit: 3 }), never)
    expect(found.map(one => (one as { timeUs: number }).timeUs)).toEqual([1000, 996, 994])
    expect(whole).toEqual([1000n, 998n, 996n, 994n])
    // A table gives the newest first, whatever order its rows are asked for in.
    rows.reverse()
    const oldest = await reader.read(pageQuery({ name: 'n', direction: 'asc', limit: 3 }), never)
    expect(oldest.map(one => (one as { timeUs: number }).timeUs)).toEqual([962, 964, 966])
  })

  test.each([
    ['a table that is missing', failure('ResponseError', 'table messages does not exist', 0x2200), /start a writer/],
    ['a node that is overloaded', failure('ResponseError', 'overloaded', 0x1001), /cannot answer now: overloaded/],
    ['a request without an answer', failure('OperationTimedOutError', 'no answer from 127.0.0.1'), /cannot answer now: no answer/],
  ])('%s makes the store unavailable', async (_what, error, sentence) => {
    const reader = await readerOver(async () => Promise.reject(error))
    for (const asked of [reader.read(pageQuery(), never), reader.count(pageQuery(), 1, never), reader.check()]) {
      await expect(asked).rejects.toBeInstanceOf(StoreUnavailableError)
      await expect(asked).rejects.toThrow(sentence)
    }
  })

  test('for a format without a table nothing is prepared, since the driver caches what it prepares', async () => {
    const prepared = new Set<string>()
    const reader = await readerOver(async (cql, _values, { prepare }) => {
      if (prepare !== false) prepared.add(cql)
      if (cql.startsWith('SELECT day')) return { rows: [day], ...nothingMore }
      throw failure('ResponseError', 'table does not exist', 0x2200)
    })
    for (let nth = 0; nth < 20; nth++) {
      const query = pageQuery({ format: `f${nth}`, toNs: 1n, payload: [{ path: ['a'], text: 'b' }] })
      expect(await reader.read(query, never)).toEqual([])
      expect(await reader.count(query, 1, never)).toBe(0)
      expect(await reader.latest(query, never)).toEqual({ groups: [], total: 0 })
    }
    expect([...prepared]).toEqual([expect.stringMatching(/^SELECT day FROM "k"."sluice_channel_days"/)])
  })

  test('the table of a format is checked once', async () => {
    let unprepared = 0
    const reader = await readerOver(async (cql, _values, { prepare }) => {
      if (prepare === false) unprepared++
      return { rows: cql.startsWith('SELECT day') ? [day] : [row], ...nothingMore }
    })
    for (let nth = 0; nth < 3; nth++) expect(await reader.read(pageQuery({ format: 'weather' }), never)).toHaveLength(1)
    expect(unprepared).toBe(1)
  })

  test('a format with a dropped table has no rows, even if it existed before', async () => {
    let isThere = true
    const reader = await readerOver(async cql => {
      if (cql.startsWith('SELECT day')) return { rows: [day], ...nothingMore }
      if (isThere) return { rows: [row], ...nothingMore }
      throw failure('ResponseError', 'table weather does not exist', 0x2200)
    })
    expect(await reader.read(pageQuery({ format: 'weather' }), never)).toHaveLength(1)
    isThere = false
    expect(await reader.read(pageQuery({ format: 'weather' }), never)).toEqual([])
    expect(await reader.count(pageQuery({ format: 'weather' }), 1, never)).toBe(0)
  })

  test('a missing permission is an error, and not an outage', async () => {
    const reader = await readerOver(async () => Promise.reject(failure('ResponseError', 'User r has no SELECT permission', 0x2100)))
    const error = await reader.read(pageQuery(), never).catch((found: unknown) => found)
    expect(error).not.toBeInstanceOf(StoreUnavailableError)
    expect((error as Error).message).toMatch(
      /User r has no SELECT permission\): grant the role in store\.url \(SVC_WIDECOLUMN_URL\) the permissions: GRANT SELECT ON KEYSPACE/,
    )
  })
})

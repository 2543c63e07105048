// The audit of an InfluxDB store, on a server.

import { beforeAll, expect, test, vi } from 'vitest'
import type { AuditedRange } from '../../../sinks/audit.ts'
import { openAudit } from '../../../sinks/influxdb/audit.ts'
import { openConnection } from '../../../sinks/influxdb/connection.ts'
import { openLogTable, openReplays } from '../../../sinks/influxdb/registry.ts'
import { freeLog } from '../../../sinks/logs.ts'
import { flattenFrom } from '../../../transformers/flattening.ts'
import { auditConformance } from '../../conformance/audit.ts'
import type { AuditedStore, ForeignChange } from '../../conformance/audited-store.ts'
import { describeWithInflux, type InfluxAccess } from '../../servers/influx.ts'
import { batchOf, noonUs, type TestMessage } from '../batches.ts'
import { lineOf, predicateOf, removePoints } from './points.ts'
import { openStore } from './store.ts'

async function auditedStore(influx: InfluxAccess): Promise<AuditedStore> {
  const store = await openStore(influx)
  const { connection } = store
  const everything = ['1677-09-22T00:00:00Z', '2262-04-11T00:00:00Z'] as const
  const at = async (position: bigint) => (await store.points()).filter(({ fields }) => fields.get('/position') === position)
  const remove = (position: bigint): Promise<unknown> => openReplays(connection).deleteRows(position, '', new AbortController().signal)
  const integer = (name: string, more: bigint): Pick<ForeignChange, 'change'> => ({
    // The same point again, which overwrites the field.
    async change(position) {
      const points = await at(position)
      await store.put(...points.map(one => lineOf({ ...one, fields: new Map([[name, (one.fields.get(name) as bigint) + more]]) })))
    },
  })
  const moved = (moreNs: bigint): Pick<ForeignChange, 'change'> => ({
    async change(position) {
      const points = await at(position)
      await remove(position)
      await store.put(...points.map(point => lineOf({ ...point, ns: point.ns + moreNs })))
    },
  })
  return {
    open: identity => store.open(identity),
    async openReplay(logNumber) {
      const replays = await store.replays.openSink(logNumber)
      return {
        ...replays,
        write: (batch, partial, signal) => {
          flattenFrom(batch, 0)
          return replays.write(batch, partial, signal)
        },
      }
    },
    audit: openAudit(connection, store.options),
    double: async position => store.put(...(await at(position)).map(point => lineOf({ ...point, ns: point.ns + 86_400_000_000_000n }))),
    // As a replay does.
    remove: async position => void (await remove(position)),
    foreignChanges: {
      // Not by one, which is the point of the next offset.
      'nanoseconds of a point': { of: 'record', column: 'time', ...moved(500n) },
      'the day of a point': { of: 'record', column: 'time', ...moved(86_400_000_000_000n) },
      'the microseconds beside the index': { of: 'record', column: 'time', ...integer('/index', 1n) },
      'an index': { of: 'document', column: 'index', ...integer('/index', 1000n) },
      'the exact time of a document': { of: 'document', column: 'created', ...integer('/created', 1000n) },
      'the millisecond of a document': { of: 'document', column: 'created', ...moved(1_000_000n) },
      'a text beside the number of a key': {
        of: 'document',
        column: 'payload',
        async change(position) {
          const points = await at(position)
          await store.put(...points.map(point => lineOf({ ...point, fields: new Map([['speed//text', 'fast']]) })))
        },
      },
    },
    dropFormat: format => removePoints(store.options, ...everything, predicateOf({ _measurement: format })),
    free: number => freeLog(openLogTable(connection), number, openAudit(connection, store.options)),
    close: () => store.close(),
  }
}

describeWithInflux('server', influx => {
  auditConformance('the audit of InfluxDB', () => auditedStore(influx))

  test("a replay without a writer's buckets stops, and creates none", async () => {
    const store = await openStore(influx)
    for (let time = 0; time < 2; time++)
      await expect(store.replays.openSink(1)).rejects.toThrow(/the bucket "\S+" is missing .*: start its writer first/)
    await store.close()
  })

  test('it needs only read permission, and the error names a missing one', async () => {
    const store = await openStore(influx)
    const sink = await store.open()
    await sink.write(
      sink.encode(batchOf(0, 1, [{ offset: 0, records: [{ value: 1 }] }])),
      async () => undefined,
      new AbortController().signal,
    )
    const token = await tokenFor(influx, store.connection.org, [store.connection.bucket, store.connection.registryBucket])
    const reading = await openConnection({ ...store.options, token }, 'auditor')
    const audit = openAudit(reading, store.options)
    expect(await audit.logs()).toMatchObject([{ number: 1, name: 'messages' }])
    const where = { channel: 'channel-1', format: 'messages', earliestUs: noonUs, latestUs: noonUs }
    expect(await audit.rowsOf(1, 0, 0, where)).toBe(1)
    const found: number[] = []
    for await (const { offset } of audit.messages(1, 0, 0, 10)) found.push(offset)
    for await (const { offset } of audit.messages(1, 0, 0, 10, { contents: true })) found.push(offset)
    expect(found).toEqual([0, 0])
    await reading.close()
    await sink.close()
    await store.close()
  })

  test('partitions that are requested one after another are counted in one scan, as of the first request', async () => {
    const store = await openStore(influx)
    const sink = await store.open()
    const write = async (partition: number, from: number, to: number): Promise<void> => {
      const messages = Array.from(
        { length: to - from },
        (_, nth): TestMessage => ({ offset: from + nth, records: [{ value: 1 }, { value: 2 }] }),
      )
      const batch = batchOf(from, to, messages, partition)
      await sink.write(sink.encode(batch), async () => undefined, new AbortController().signal)
    }
    for (const partition of [0, 1, 2]) await write(partition, 0, 3 + partition)
    const queries = vi.spyOn(store.connection, 'query')
    const scans = (): number => queries.mock.calls.filter(([flux]) => flux.includes('"/index"')).length
    const audit = openAudit(store.connection, store.options)
    const ranges = [0, 1, 2].map(partition => ({ partition, from: 0, to: 3 + partition }))
    const offsets = async (nth: number, after: readonly AuditedRange[]): Promise<number[]> => {
      const { partition, from, to } = ranges[nth]!
      const found: number[] = []
      for await (const { offset, rows } of audit.messages(1, partition, from, to, { after })) if (rows === 2) found.push(offset)
      return found
    }
    for (const nth of [0, 1, 2]) expect(await offsets(nth, ranges.slice(nth + 1))).toEqual([0, 1, 2, 3, 4].slice(0, 3 + nth))
    expect(scans()).toBe(1)
    // Once it was answered it is counted anew.
    expect(await offsets(2, [])).toEqual([0, 1, 2, 3, 4])
    expect(scans()).toBe(2)
    // What is asked otherwise than it was said has its own scan.
    for await (const { offset } of audit.messages(1, 0, 0, 2, { after: ranges.slice(1) })) expect(offset).toBeLessThan(2)
    const other: number[] = []
    for await (const { offset } of audit.messages(1, 2, 1, 3)) other.push(offset)
    expect(other).toEqual([1, 2])
    expect(scans()).toBe(4)
    await sink.close()
    await store.close()
  })

  let resources: { orgID: string }

  beforeAll(async () => {
    const response = await fetch(`${influx.url}/api/v2/orgs?org=${influx.org}`, { headers: { authorization: `Token ${influx.token}` } })
    const { orgs } = (await response.json()) as { orgs: { id: string }[] }
    resources = { orgID: orgs[0]!.id }
  })

  async function tokenFor(influx: InfluxAccess, org: string, buckets: readonly string[]): Promise<string> {
    const headers = { authorization: `Token ${influx.token}`, 'content-type': 'application/json' }
    const permissions = await Promise.all(
      buckets.map(async name => {
        const found = await fetch(`${influx.url}/api/v2/buckets?org=${org}&name=${name}`, { headers })
        const { buckets } = (await found.json()) as { buckets: { id: string }[] }
        return { action: 'read', resource: { type: 'buckets', id: buckets[0]!.id, orgID: resources.orgID } }
      }),
    )
    const body = JSON.stringify({ orgID: resources.orgID, description: 'of the tests', permissions })
    const made = await fetch(`${influx.url}/api/v2/authorizations`, { method: 'POST', headers, body })
    return ((await made.json()) as { token: string }).token
  }
})

// Many sinks that are opened at the same instant on a store without transactions: each log gets one number and one writer.

import { randomUUID } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import { expect, test, vi } from 'vitest'
import type { Connection } from '../../../sinks/influxdb/connection.ts'
import { readLogs, readRegistry, registryNs, writeRegistry } from '../../../sinks/influxdb/registry.ts'
import { openSink } from '../../../sinks/influxdb/sink.ts'
import { SinkError } from '../../../sinks/sink-error.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import type { SinkIdentity } from '../../conformance/sink/index.ts'
import { describeWithInflux } from '../../servers/influx.ts'
import { type InfluxStore, openStore } from './store.ts'

describeWithInflux('registration', influx => {
  async function opened(store: InfluxStore, identities: readonly SinkIdentity[]): Promise<(number | string)[]> {
    return await Promise.all(
      identities.map(async identity => {
        try {
          const sink = await store.open(identity)
          await sink.close()
          return sink.logNumbers[0]!
        } catch (error) {
          if (!(error instanceof SinkError)) throw error
          return `${error.errorClass}: ${error.message}`
        }
      }),
    )
  }
  async function withStore(work: (store: InfluxStore) => Promise<void>): Promise<void> {
    const store = await openStore(influx, { poisons: {} })
    try {
      await work(store)
    } finally {
      await store.close()
    }
  }
  const ten = Array.from({ length: 10 }, (_, nth) => nth)
  /** As a process leaves it that died before it was done. */
  const claim = (name: string, writer: string, number = 1): string =>
    `claims,claimant=${randomUUID()},number=${number} name="${name}",id="id-1",writer="${writer}",withdrawn=false,attempt=1i ${registryNs}`

  test('ten workers of one writer get the same number', () =>
    withStore(async store => {
      expect(
        await opened(
          store,
          ten.map(() => ({})),
        ),
      ).toEqual(ten.map(() => 1))
      expect(await readLogs(store.connection)).toMatchObject([{ number: 1, name: 'messages', id: 'id-1', writer: 'writer-1' }])
    }))

  test('of ten workers of two writers those of one get the log, and the others an error', async () => {
    for (let times = 0; times < 2; times++) {
      await withStore(async store => {
        const results = await opened(
          store,
          ten.map(nth => ({ writer: `writer-${nth % 2}` })),
        )
        const owners = ten.filter(nth => results[nth] === 1).map(nth => nth % 2)
        expect(owners).toHaveLength(5)
        expect(new Set(owners).size).toBe(1)
        for (const result of results) if (result !== 1) expect(result).toMatch(/systemic: .*belong to the writer "writer-/)
        expect(await readLogs(store.connection)).toHaveLength(1)
      })
    }
  })

  test('four logs at once get four numbers', () =>
    withStore(async store => {
      const numbers = await opened(
        store,
        [1, 2, 3, 4].map(nth => ({ logName: `log-${nth}`, writer: `writer-${nth % 3}` })),
      )
      expect(new Set(numbers)).toEqual(new Set([1, 2, 3, 4]))
    }))

  test.each([
    ['of another log', 'replays', 'writer-1'],
    ['of another writer of the same log', 'messages', 'writer-2'],
    ['of its own', 'messages', 'writer-1'],
  ])('the claim of a process that died %s does not block others', (_whose, name, writer) =>
    withStore(async store => {
      await (await store.open({ logName: 'first' })).close()
      await writeRegistry(store.connection, [claim(name, writer, 2)])
      expect(await opened(store, [{}, {}])).toEqual([2, 2])
      expect(await readLogs(store.connection)).toMatchObject([{ name: 'messages', writer: 'writer-1' }, { name: 'first' }])
    }),
  )

  test('a process that was only paused finds its claim withdrawn, and what it settles does not count', () =>
    withStore(async store => {
      await (await store.open({ logName: 'first' })).close()
      const sleeper = claim('messages', 'writer-2', 2)
      await writeRegistry(store.connection, [sleeper])
      expect(await opened(store, [{}])).toEqual([2])
      const settled = sleeper.replace('claims', 'logs').replace(/,withdrawn.*i /, ',accepted_at="2999-01-01T00:00:00Z" ')
      await writeRegistry(store.connection, [settled])
      expect(await readLogs(store.connection)).toMatchObject([{ name: 'messages', writer: 'writer-1' }, { name: 'first' }])
      expect(await opened(store, [{}, { writer: 'writer-2' }])).toEqual([2, expect.stringContaining('belong to the writer "writer-1"')])
    }))

  test('a process that settled while it was considered dead keeps its log', () =>
    withStore(async store => {
      await (await store.open({ logName: 'first' })).close()
      // Settled without the reader having seen it yet is the same as a claim that is withdrawn a moment later.
      const late = claim('messages', 'writer-2', 2)
      await writeRegistry(store.connection, [late])
      const settled = late.replace('claims', 'logs').replace(/,withdrawn.*i /, ',accepted_at="2999-01-01T00:00:00Z" ')
      const { options, connection } = store
      const write: Connection['write'] = async (bucket, gzipped, signal) => {
        if (gunzipSync(gzipped).toString().includes('withdrawn=true')) await writeRegistry(connection, [settled])
        await connection.write(bucket, gzipped, signal)
      }
      const logs = [{ logName: 'messages', logId: 'id-1', writer: 'writer-1' }]
      const opening = withNumbers(openSink({ connection: { ...connection, write }, options, logs }))
      await expect(opening).rejects.toThrow(/belong to the writer "writer-2"/)
    }))

  test.each([
    ['claim', 'claims,'],
    ['log that was settled', 'logs,'],
  ])('if the write of the %s of one writer is delayed until another has the log, only one of them has it', (_what, beginning) =>
    withStore(async store => {
      await (await store.open({ logName: 'first' })).close()
      const held = Promise.withResolvers<void>()
      const reached = Promise.withResolvers<void>()
      const write: Connection['write'] = async (bucket, gzipped, signal) => {
        if (gunzipSync(gzipped).toString().startsWith(beginning)) {
          reached.resolve()
          await held.promise
        }
        await store.connection.write(bucket, gzipped, signal)
      }
      const { options, connection } = store
      const identity = { logName: 'messages', logId: 'id-1' }
      const late = withNumbers(openSink({ connection: { ...connection, write }, options, logs: [{ ...identity, writer: 'writer-2' }] }))
      late.catch(() => undefined)
      await reached.promise
      expect(await opened(store, [{}])).toEqual([2])
      held.resolve()
      await expect(late).rejects.toThrow(/belong to the writer "writer-1".*, but this writer is called "writer-2"/)
      expect(await readLogs(connection)).toMatchObject([{ number: 2, writer: 'writer-1' }, { name: 'first' }])
    }),
  )

  test('an accepted log comes after all existing ones, even if the clock of its machine is behind', () =>
    withStore(async store => {
      await (await store.open()).close()
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 86_400_000 })
      try {
        const anew = await store.open({ logId: 'id-2', acceptNewLog: 'id-2' })
        expect([anew.logNumbers[0], (await store.open({ logId: 'id-2' })).logNumbers[0]]).toEqual([2, 2])
        expect((await readLogs(store.connection)).map(({ id }) => id)).toEqual(['id-2', 'id-1'])
        // And back to the one before, which is settled anew.
        expect((await store.open({ acceptNewLog: 'id-1' })).logNumbers[0]).toBe(1)
        expect((await store.open()).logNumbers[0]).toBe(1)
      } finally {
        vi.useRealTimers()
      }
    }))

  test('a log that was read into another store is not started in the middle', () =>
    withStore(async store => {
      const hasCommits = { hasCommits: async () => true } as SinkIdentity
      await expect(store.open(hasCommits)).rejects.toThrow(/does not know the log "messages"/)
      expect((await store.open({ ...hasCommits, acceptNewLog: 'id-1' })).logNumbers[0]).toBe(1)
    }))

  test('an acknowledged write is visible to the next query of any process', () =>
    withStore(async store => {
      await (await store.open()).close()
      for (let nth = 0; nth < 60; nth++) {
        await writeRegistry(store.connection, [claim('seen', `writer-${nth}`, 100)])
        if (nth % 20 !== 19) continue
        const claims = (await readRegistry(store.connection, ['claims'])).filter(({ fields }) => fields.get('name') === 'seen')
        expect(claims).toHaveLength(nth + 1)
      }
    }))
})

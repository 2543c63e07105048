// Many sinks that are opened at the same instant on a store without compare-and-set: a number has one log, and a log one number and one writer.

import { randomUUID } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import { expect, test, vi } from 'vitest'
import type { Connection } from '../../../sinks/influxdb/connection.ts'
import { readLogs, readRegistry, registryNs, writeRegistry } from '../../../sinks/influxdb/registry.ts'
import { openSink } from '../../../sinks/influxdb/sink.ts'
import { SinkError } from '../../../sinks/sink-error.ts'
import { logsOf, unexpected, withNumbers } from '../../conformance/sink/fixture.ts'
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
  const claims = (store: InfluxStore) => readRegistry(store.connection, ['claims'])
  /** The two writes of a registration, by what their lines begin with. */
  const steps = { claim: /^claims,/, log: /^logs,/ }
  type Step = keyof typeof steps
  const written = (gzipped: Uint8Array): string => gunzipSync(gzipped).toString()
  /** Another writer of the log that `opened` registers. */
  const late = (store: InfluxStore, write: Connection['write']) => {
    const { options, connection } = store
    return withNumbers(openSink({ connection: { ...connection, write }, options, logs: logsOf({ writer: 'writer-2' }) }))
  }

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

  test.each<[string, (nth: number) => SinkIdentity, RegExp]>([
    ['two writers of one log', nth => ({ writer: `writer-${nth % 2}` }), /^systemic: .*belong to the writer "writer-[01]"/],
    ['two logs with one number', nth => ({ logName: `log-${nth % 2}`, number: 1 }), /^systemic: .* so "log-[01]" .* cannot be number 1:/],
    ['one log with two numbers', nth => ({ number: 1 + (nth % 2) }), /^systemic: .* so "messages" .* cannot be number [12]:/],
  ])('of ten workers of %s only those of one get a number, and the others an error', (_what, identityOf, refused) =>
    withStore(async store => {
      const results = await opened(
        store,
        ten.map(nth => identityOf(nth)),
      )
      const there = ten.filter(nth => typeof results[nth] === 'number')
      expect(new Set(there.map(nth => nth % 2)).size).toBeLessThanOrEqual(1)
      for (const result of results) if (typeof result === 'string') expect(result).toMatch(refused)
      // Those that were refused have left nothing, so one that starts alone gets it.
      expect(await readLogs(store.connection)).toHaveLength(Math.min(there.length, 1))
      expect((await claims(store)).length).toBeLessThanOrEqual(there.length)
      const again = identityOf(there[0] ?? 0)
      expect(await opened(store, [again])).toEqual([again.number ?? 1])
    }),
  )

  test('a number that another log has, or another number than before, is refused at the start', () =>
    withStore(async store => {
      await (await store.open({ number: 3 })).close()
      const start = { unnumbered: true }
      await expect(store.open({ ...start, logName: 'other', number: 3 })).rejects.toThrow(/"other" .* cannot be number 3: set 4 in /)
      await expect(store.open({ ...start, number: 4 })).rejects.toThrow(/"messages" .* cannot be number 4: set 3 in /)
      expect(await readLogs(store.connection)).toHaveLength(1)
      expect(await claims(store)).toHaveLength(1)
    }))

  test.each<Step>(['claim', 'log'])('a process that died after it wrote its %s has the log, and no other one', step =>
    withStore(async store => {
      const dying = late(store, async (bucket, gzipped, signal) => {
        await store.connection.write(bucket, gzipped, signal)
        if (steps[step].test(written(gzipped))) throw new SinkError('systemic', 'killed')
      })
      await expect(dying).rejects.toThrow('killed')
      expect(await opened(store, [{}])).toEqual([expect.stringMatching(/belong to the writer "writer-2"/)])
      expect(await opened(store, [{ writer: 'writer-2' }])).toEqual([1])
      expect(await opened(store, [{ logName: 'other' }])).toEqual([2])
    }),
  )

  test.each<[Step, string]>([
    ['claim', 'writer-1'],
    ['log', 'writer-2'],
  ])('a %s that is stored after its sender gave up leaves the log to %s', (step, winner) =>
    withStore(async store => {
      let arrive: () => Promise<void> = unexpected
      const givingUp = late(store, async (bucket, gzipped, signal) => {
        if (!steps[step].test(written(gzipped))) return await store.connection.write(bucket, gzipped, signal)
        arrive = () => store.connection.write(bucket, gzipped)
        throw new SinkError('transient', 'no answer')
      })
      await expect(givingUp).rejects.toThrow('no answer')
      const before = await opened(store, [{}])
      await arrive()
      const writers = [{}, { writer: 'writer-2' }]
      const refused = expect.stringMatching(`belong to the writer "${winner}"`)
      const expected = winner === 'writer-1' ? [1, refused] : [refused, 1]
      expect([before, await opened(store, writers)]).toEqual([expected.slice(0, 1), expected])
      expect(await opened(store, [{ logName: 'other' }])).toEqual([2])
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
        // And back to the one before.
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
      await (await store.open({ logName: 'first' })).close()
      for (let nth = 0; nth < 60; nth++) {
        await writeRegistry(store.connection, [`claims,claimant=${randomUUID()},number=100 name="seen" ${registryNs}`])
        if (nth % 20 !== 19) continue
        const seen = (await claims(store)).filter(({ fields }) => fields.get('name') === 'seen')
        expect(seen).toHaveLength(nth + 1)
      }
    }))
})

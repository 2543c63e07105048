// Many sinks that are opened at the same instant on a store without transactions: each log gets one number and one writer.

import { randomUUID } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import { expect, test, vi } from 'vitest'
import { type Connection, openConnection } from '../../../sinks/influxdb/connection.ts'
import { readLogs, readRegistry, registryNs, writeRegistry } from '../../../sinks/influxdb/registry.ts'
import { openSink } from '../../../sinks/influxdb/sink.ts'
import { SinkError } from '../../../sinks/sink-error.ts'
import { logsOf, unexpected, withNumbers } from '../../conformance/sink/fixture.ts'
import type { SinkIdentity } from '../../conformance/sink/index.ts'
import { describeWithInflux } from '../../servers/influx.ts'
import { openProxy } from '../../servers/process/proxy.ts'
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
  /** As a process of the release before left it that died before it was done. */
  const oldClaim = (name: string, writer: string, number = 1): string =>
    `claims,claimant=${randomUUID()},number=${number} name="${name}",id="id-1",writer="${writer}",withdrawn=false,attempt=1i ${registryNs}`
  /** The three writes of a registration, by what their lines contain. */
  const steps = { claim: / name=.*ballot=/, vote: / vote=/, 'settled log': /^logs,/ }
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
    ['of another log', 'replays', 'writer-1', 3],
    ['of another writer of the same log', 'messages', 'writer-2', 3],
    ['of its own', 'messages', 'writer-1', 2],
  ])('the claim of a process of the release before %s keeps its number, and blocks no other', (_whose, name, writer, number) =>
    withStore(async store => {
      await (await store.open({ logName: 'first' })).close()
      await writeRegistry(store.connection, [oldClaim(name, writer, 2)])
      expect(await opened(store, [{}, {}])).toEqual([number, number])
      expect(await readLogs(store.connection)).toMatchObject([{ name: 'messages', writer: 'writer-1' }, { name: 'first' }])
    }),
  )

  test('a log of the release before is known', () =>
    withStore(async store => {
      await (await store.open({ logName: 'first' })).close()
      const settling = oldClaim('messages', 'writer-1', 2)
      const settled = settling.replace('claims', 'logs').replace(/,withdrawn.*i /, ',accepted_at="2026-01-01T00:00:00Z" ')
      await writeRegistry(store.connection, [settling, settled])
      expect(await opened(store, [{}, { logName: 'other' }])).toEqual([2, 3])
    }))

  test.each<[Step, string, number | RegExp, number | RegExp]>([
    ['claim', 'is not in the way of another', 2, /belong to the writer "writer-1"/],
    ['vote', 'has its log settled by the next', /belong to the writer "writer-2"/, 2],
    ['settled log', 'has its log', /belong to the writer "writer-2"/, 2],
  ])('a process that died after its %s %s', (step, _what, other, again) =>
    withStore(async store => {
      await (await store.open({ logName: 'first' })).close()
      const dying = late(store, async (bucket, gzipped, signal) => {
        await store.connection.write(bucket, gzipped, signal)
        if (steps[step].test(written(gzipped))) throw new SinkError('systemic', 'killed')
      })
      await expect(dying).rejects.toThrow('killed')
      const matching = (result: number | RegExp) => (result instanceof RegExp ? expect.stringMatching(result) : result)
      expect(await opened(store, [{}])).toEqual([matching(other)])
      expect(await opened(store, [{ writer: 'writer-2' }])).toEqual([matching(again)])
      expect(await opened(store, [{ logName: 'other' }])).toEqual([3])
    }),
  )

  test.each<[Step, string]>([
    ['claim', 'writer-1'],
    ['vote', 'writer-1'],
    ['settled log', 'writer-2'],
  ])('if a process is paused before its %s until another has claimed, the log is of %s, and the other stops', (step, winner) =>
    withStore(async store => {
      await (await store.open({ logName: 'first' })).close()
      const held = Promise.withResolvers<void>()
      const reached = Promise.withResolvers<void>()
      const paused = late(store, async (bucket, gzipped, signal) => {
        if (steps[step].test(written(gzipped))) {
          reached.resolve()
          await held.promise
        }
        await store.connection.write(bucket, gzipped, signal)
      })
      const results = Promise.allSettled([paused])
      await reached.promise
      const [other] = await opened(store, [{}])
      held.resolve()
      const [result] = await results
      const numbers = [other, result.status === 'fulfilled' ? result.value.logNumbers[0] : String(result.reason)]
      const refused = expect.stringMatching(`belong to the writer "${winner}"`)
      expect(numbers).toEqual(winner === 'writer-1' ? [2, refused] : [refused, 2])
      expect(await readLogs(store.connection)).toMatchObject([{ number: 2, writer: winner }, { name: 'first' }])
    }),
  )

  test.each<[Step, string]>([
    ['claim', 'writer-1'],
    ['vote', 'writer-1'],
    ['settled log', 'writer-2'],
  ])('a %s that is stored after its sender gave up leaves the log to %s', (step, winner) =>
    withStore(async store => {
      await (await store.open({ logName: 'first' })).close()
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
      const expected = winner === 'writer-1' ? [2, refused] : [refused, 2]
      expect([before, await opened(store, writers)]).toEqual([expected.slice(0, 1), expected])
      expect(await opened(store, [{ logName: 'other' }])).toEqual([3])
    }),
  )

  test('a claim that arrives from the network after its request has timed out blocks no other', () =>
    withStore(async store => {
      const { port } = new URL(influx.url)
      const proxy = await openProxy({ port: Number(port) })
      const url = store.options.url.replace(port, String(proxy.port))
      const slow = await openConnection({ ...store.options, url, requestTimeoutMs: 2_000 }, 'test')
      const givingUp = late(store, async (bucket, gzipped, signal) => {
        if (steps.claim.test(written(gzipped))) proxy.latency(5_000)
        await slow.write(bucket, gzipped, signal)
      })
      await expect(givingUp).rejects.toThrow(/has not answered for 2000 ms/)
      expect(await opened(store, [{}])).toEqual([1])
      const claimants = async () => (await readRegistry(store.connection, ['claims'])).map(({ fields }) => fields.get('writer'))
      await expect.poll(claimants).toContain('writer-2')
      expect(await opened(store, [{}, { writer: 'writer-2' }])).toEqual([1, expect.stringMatching(/belong to the writer "writer-1"/)])
      await slow.close()
      await proxy.close()
    }))

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

  test('a log whose claim was withdrawn by a process that died before it could restore it keeps its number', () =>
    withStore(async store => {
      await (await store.open()).close()
      const [settled] = (await readRegistry(store.connection, ['logs'])).map(({ tags }) => tags)
      await writeRegistry(store.connection, [
        `claims,claimant=${settled!.get('claimant')},number=${settled!.get('number')} withdrawn=true,attempt=1i ${registryNs}`,
      ])
      const hasCommits = { hasCommits: async () => true } as SinkIdentity
      expect((await store.open({ ...hasCommits, unnumbered: true })).logNumbers).toEqual([1])
      expect((await store.open({ logName: 'other' })).logNumbers).toEqual([2])
      expect(await readLogs(store.connection)).toMatchObject([
        { number: 2, name: 'other' },
        { number: 1, name: 'messages' },
      ])
    }))

  test('an acknowledged write is visible to the next query of any process', () =>
    withStore(async store => {
      await (await store.open()).close()
      for (let nth = 0; nth < 60; nth++) {
        await writeRegistry(store.connection, [oldClaim('seen', `writer-${nth}`, 100)])
        if (nth % 20 !== 19) continue
        const claims = (await readRegistry(store.connection, ['claims'])).filter(({ fields }) => fields.get('name') === 'seen')
        expect(claims).toHaveLength(nth + 1)
      }
    }))
})

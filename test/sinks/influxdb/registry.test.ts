// How writers elect the log of a number, without a server: with writes that are stored late or in pieces, answers that are lost, and processes that die
// or are paused anywhere.

import { gunzipSync } from 'node:zlib'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { answerOf, type Connection } from '../../../sinks/influxdb/connection.ts'
import { type Claim, electedLog, openLogTable, registeredLogs } from '../../../sinks/influxdb/registry.ts'
import { chooseLog, type LogIdentity, type RegisteredLog } from '../../../sinks/logs.ts'

const claim = (claimant: string, some: Partial<Claim> = {}): Claim => ({
  number: 1,
  name: `log of ${claimant}`,
  id: 'id',
  writer: 'writer',
  contentTypes: undefined,
  acceptedMs: 1,
  claimant,
  ballot: 1,
  vote: undefined,
  withdrawn: false,
  attempt: 0,
  ...some,
})

describe('the elected log', () => {
  const elected = (own: Claim, claims: Claim[], settled: Claim[] = []) => electedLog(own, { claims: [own, ...claims], settled })?.claimant
  const own = claim('own', { ballot: 5 })

  test('is the own one if no other claim has a vote', () => {
    expect(elected(own, [])).toBe('own')
    expect(elected(own, [claim('a', { ballot: 4 }), claim('b', { ballot: 9, number: 2, vote: 'b' })])).toBe('own')
  })

  test('is the one that the highest ballot with a vote has voted for', () => {
    const [a, b, c] = [claim('a', { ballot: 2, vote: 'a' }), claim('b', { ballot: 3, vote: 'c' }), claim('c', { ballot: 1, vote: 'c' })]
    expect(elected(own, [a, b, c, claim('d', { ballot: 4 })])).toBe('c')
    expect(elected({ ...own, vote: 'own' }, [a, b, c])).toBe('own')
  })

  test('is none below a higher ballot, of equal ones below the higher claimant, and without the own claim', () => {
    expect(elected(own, [claim('a', { ballot: 6 })])).toBeUndefined()
    expect([elected(own, [claim('pwn', { ballot: 5 })]), elected(own, [claim('nwn', { ballot: 5 })])]).toEqual([undefined, 'own'])
    expect(electedLog(own, { claims: [], settled: [] })).toBeUndefined()
  })

  test('is none once a log is settled, whatever the claims say', () => {
    expect(elected(own, [], [claim('a')])).toBeUndefined()
    expect(elected(own, [], [claim('a', { number: 2 })])).toBe('own')
  })

  test('is none while a process of the release before may settle another one', () => {
    const old = claim('old', { ballot: undefined })
    expect(elected(own, [old])).toBeUndefined()
    expect(elected(own, [{ ...old, withdrawn: true }])).toBe('own')
    expect(elected(own, [{ ...old, name: own.name }])).toBe('own')
    // The elected log counts, not the own one.
    expect(elected(own, [{ ...old, name: own.name }, claim('a', { ballot: 2, vote: 'a' })])).toBeUndefined()
  })
})

test('of the settled logs of a number one has it, whatever their order: one whose claim was not withdrawn, if there is one', () => {
  const claimant = fc.constantFrom('a', 'b', 'c', 'd')
  const entry = fc.record({
    claimant,
    number: fc.integer({ min: 1, max: 3 }),
    acceptedMs: fc.integer({ min: 1, max: 3 }),
    withdrawn: fc.boolean(),
  })
  const entries = fc.uniqueArray(entry, { maxLength: 8, selector: ({ claimant, number }) => `${claimant} ${number}` })
  const both = fc.tuple(entries, entries).chain(([claims, settled]) =>
    fc.record({
      registered: fc.constant([claims, settled] as const),
      mixed: fc.tuple(
        fc.shuffledSubarray(claims, { minLength: claims.length }),
        fc.shuffledSubarray(settled, { minLength: settled.length }),
      ),
    }),
  )
  type Point = Pick<Claim, 'claimant' | 'number' | 'acceptedMs' | 'withdrawn'>
  const logsOf = ([claims, settled]: readonly [Point[], Point[]]) =>
    registeredLogs({
      claims: claims.map(point => claim(point.claimant, point)),
      settled: settled.map(point => claim(point.claimant, point)),
    })
  fc.assert(
    fc.property(both, ({ registered, mixed }) => {
      const logs = logsOf(registered)
      expect(logsOf(mixed)).toEqual(logs)
      const [claims, settled] = registered
      const numbers = settled.map(({ number }) => number)
      expect(logs).toHaveLength(new Set(numbers).size)
      expect(new Set(logs.map(({ number }) => number))).toEqual(new Set(numbers))
      const stands = (log: { claimant: string; number: number }) =>
        claims.some(({ claimant, number, withdrawn }) => claimant === log.claimant && number === log.number && !withdrawn)
      for (const log of logs) if (!stands(log)) expect(settled.filter(({ number }) => number === log.number).some(stands)).toBe(false)
    }),
  )
})

/** A registry in memory. Every step of the server waits until `step` resolves, and every step of a process until its own does. */
function openRegistry(step: () => Promise<void>) {
  const points = new Map<string, Map<string, string>>()

  async function store(text: string): Promise<void> {
    await step()
    for (const line of text.trim().split('\n')) {
      const [, key, fields] = /^(\S+) (.*) \d+$/.exec(line)!
      const point = points.get(key!) ?? points.set(key!, new Map()).get(key!)!
      const pairs = [...fields!.matchAll(/(\w+)=("(?:[^"\\]|\\.)*"|[^,]+)/g)]
      // A query may see some fields of a point before others.
      const half = pairs.length >> 1
      for (const [at, [, name, value]] of pairs.entries()) {
        if (at === half) await step()
        point.set(name!, value!)
      }
    }
  }

  function table(key: string, field: string, value: string): string {
    const [, measurement, claimant, number] = /^(\w+),claimant=(.*),number=(.*)$/.exec(key)!
    const [type, text] = value.startsWith('"')
      ? ['string', value.slice(1, -1)]
      : /^\d/.test(value)
        ? ['long', value.slice(0, -1)]
        : ['boolean', value]
    const header = `#datatype,string,long,dateTime:RFC3339,${type},string,string,string,string,string\n`
    const names = ',result,table,_time,_value,_field,_measurement,claimant,number,exact\n'
    return `${header}${names},,0,1970-01-01T00:00:01Z,${text},${field},${measurement},${claimant},${number},${text}\n\n`
  }

  /** @param givesUp whether the caller of the next write gets an error instead of its answer, before or after the write is stored */
  function connect(ownStep: () => Promise<void>, givesUp: () => boolean): Connection {
    async function* answer(): AsyncGenerator<Uint8Array> {
      await ownStep()
      const keys = [...points.keys()]
      let text = ''
      for (const [at, key] of keys.entries()) {
        // Neither does it see all points at the same moment.
        if (at === keys.length >> 1) await step()
        for (const [field, value] of points.get(key)!) text += table(key, field, value)
      }
      await ownStep()
      yield Buffer.from(text)
    }
    return {
      registryBucket: 'registry',
      query: () => answerOf(answer()),
      async write(_bucket: string, gzipped: Uint8Array) {
        await ownStep()
        const stored = store(gunzipSync(gzipped).toString())
        if (!givesUp()) return await stored.then(ownStep)
        await ownStep()
        throw new Error('no answer')
      },
    } as unknown as Connection
  }
  return { connect }
}

describe('a registry whose writes are late, whose answers are lost and whose processes die', () => {
  interface Process {
    readonly identity: LogIdentity
    /** The process stops for ever before this one of its steps. */
    readonly stepsMax: number
    readonly lost: boolean[]
  }
  const identity = fc.constantFrom(
    ...[
      ['a', '1'],
      ['a', '2'],
      ['b', '1'],
      ['c', '1'],
    ].map(([logName, writer]): LogIdentity => ({ logName: logName!, logId: 'id', writer: writer! })),
  )
  const process: fc.Arbitrary<Process> = fc.record({
    identity,
    stepsMax: fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.nat(60)),
    lost: fc.array(fc.boolean(), { maxLength: 6 }),
  })
  const textOf = ({ name, id, writer }: RegisteredLog): string => `${name} ${id} ${writer}`

  test('has one log for a number and one number for a log, in all that any process ever reads', async () => {
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), fc.array(process, { minLength: 2, maxLength: 4 }), async (scheduler, processes) => {
        const schedule = () => scheduler.schedule(Promise.resolve())
        const registry = openRegistry(schedule)
        const numbers = new Map<string, number>()
        const logs = new Map<number, string>()
        /** Takes a number as `openLogRegistry` does, but never waits. */
        async function take(connection: Connection, { logName: name, logId: id, writer }: LogIdentity, attempts = 6) {
          const registered = openLogTable(connection)
          for (let attempt = 0; attempt < attempts; attempt++) {
            try {
              const known = await registered.read()
              for (const log of known) {
                expect([log.number, logs.get(log.number) ?? textOf(log)]).toEqual([log.number, textOf(log)])
                expect([textOf(log), numbers.get(textOf(log)) ?? log.number]).toEqual([textOf(log), log.number])
                logs.set(log.number, textOf(log))
                numbers.set(textOf(log), log.number)
              }
              if (known.some(log => log.name === name && log.writer !== writer)) return undefined
              const { number, state } = chooseLog(known, { logName: name, logId: id, writer })
              if (state === 'known') return number
              await registered.add({ number, name, id, writer, acceptedMs: attempt })
            } catch (error) {
              if ((error as Error).message !== 'no answer') throw error
            }
          }
          return undefined
        }
        const running: Promise<unknown>[] = []
        const faults: unknown[] = []
        for (const { identity, stepsMax, lost } of processes) {
          let steps = 0
          let writes = 0
          const step = async (): Promise<void> => {
            if (steps++ >= stepsMax) return await new Promise<never>(() => undefined)
            await schedule()
          }
          const taking = take(
            registry.connect(step, () => lost[writes++] === true),
            identity,
          )
          if (stepsMax === Number.POSITIVE_INFINITY) running.push(taking)
          else taking.catch(error => faults.push(error))
        }
        await scheduler.waitFor(Promise.all(running))
        await scheduler.waitIdle()
        expect(faults).toEqual([])
        // Whatever the dead have left, a writer of another log gets a number.
        const fresh = registry.connect(schedule, () => false)
        const last = take(fresh, { logName: 'fresh', logId: 'id', writer: '1' }, 30)
        expect(await scheduler.waitFor(last)).toBeGreaterThan(0)
        const names = (await scheduler.waitFor(openLogTable(fresh).read())).map(({ name }) => name)
        expect(names).toHaveLength(new Set(names).size)
      }),
      { numRuns: 300 },
    )
  })
})

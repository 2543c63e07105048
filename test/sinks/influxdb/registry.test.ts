// How a log gets its number, without a server: with writes that are stored late or in pieces, answers that are lost, and processes that die or
// are paused anywhere.

import { gunzipSync } from 'node:zlib'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { answerOf, type Connection } from '../../../sinks/influxdb/connection.ts'
import { openLogTable, readLogs } from '../../../sinks/influxdb/registry.ts'
import { type LogIdentity, openLogRegistry } from '../../../sinks/logs.ts'
import { SinkError } from '../../../sinks/sink-error.ts'

/** A registry in memory. Every step of the server waits until `step` resolves, and every step of a process until its own does. */
function openRegistry(step: () => Promise<void>) {
  const points = new Map<string, Map<string, string>>()

  async function store(text: string): Promise<void> {
    await step()
    for (const line of text.trim().split('\n')) {
      const [, key, fields] = /^(\S+) (.*) \d+$/.exec(line)!
      const point = points.get(key!) ?? points.set(key!, new Map()).get(key!)!
      const pairs = [...fields!.matchAll(/(\w+)="([^"]*)"/g)]
      // A query may see some fields of a point before others.
      const half = pairs.length >> 1
      for (const [at, [, name, value]] of pairs.entries()) {
        if (at === half) await step()
        point.set(name!, value!)
      }
    }
  }

  async function drop(predicate: string): Promise<void> {
    await step()
    const terms = [...predicate.matchAll(/"(\w+)"="([^"]*)"/g)].map(([, tag, value]) => `,${tag}=${value},`)
    for (const key of points.keys()) if (terms.every(term => `,_measurement=${key},`.includes(term))) points.delete(key)
  }

  function table(key: string, field: string, text: string): string {
    const [, measurement, claimant = '', number] = /^(\w+)(?:,claimant=(.*))?,number=(.*)$/.exec(key)!
    const header = '#datatype,string,long,dateTime:RFC3339,string,string,string,string,string,string\n'
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
        for (const [field, value] of points.get(key) ?? []) text += table(key, field, value)
      }
      await ownStep()
      yield Buffer.from(text)
    }
    async function change(work: () => Promise<void>): Promise<void> {
      await ownStep()
      const done = work()
      if (!givesUp()) return await done.then(ownStep)
      await ownStep()
      throw new Error('no answer')
    }
    return {
      registryBucket: 'registry',
      query: () => answerOf(answer()),
      write: (_bucket: string, gzipped: Uint8Array) => change(() => store(gunzipSync(gzipped).toString())),
      remove: (_bucket: string, _times: unknown, predicate: string) => change(() => drop(predicate)),
    } as unknown as Connection
  }
  return { connect, keys: () => [...points.keys()] }
}

function take(connection: Connection, identity: LogIdentity): Promise<number> {
  return openLogRegistry(openLogTable(connection)).take(identity)
}

const identityOf = (logName: string, number: number, writer = '1'): LogIdentity => ({ logName, logId: 'id', writer, number })

test('a claim keeps the number for its log, also after its process died, and a claim that is refused is removed', async () => {
  const atOnce = async (): Promise<void> => undefined
  const registry = openRegistry(atOnce)
  const connection = registry.connect(atOnce, () => false)
  const dying = registry.connect(atOnce, () => true)
  await expect(take(dying, identityOf('a', 1))).rejects.toThrow('no answer')
  await expect(take(connection, identityOf('b', 1))).rejects.toThrow(/has the log "a" .* as number 1, so "b" .* cannot be number 1: set 2 /)
  await expect(take(connection, identityOf('a', 2))).rejects.toThrow(/so "a" .* cannot be number 2: set 1 /)
  await expect(take(connection, identityOf('a', 2, '2'))).rejects.toThrow(/belong to the writer "1"/)
  expect(registry.keys()).toEqual([expect.stringMatching(/^claims,claimant=\S+,number=1$/)])
  expect([await take(connection, identityOf('b', 2)), await take(connection, identityOf('a', 1))]).toEqual([2, 1])
  expect(await readLogs(connection)).toMatchObject([
    { number: 1, name: 'a' },
    { number: 2, name: 'b' },
  ])
})

/** A process that takes a number, and starts again when it is refused or gets no answer. */
interface Process {
  readonly identity: LogIdentity
  /** The process stops for ever before this one of its steps. */
  readonly stepsMax: number
  readonly lost: readonly boolean[]
}

const anyProcess: fc.Arbitrary<Process> = fc.record({
  identity: fc.tuple(fc.constantFrom('a', 'b'), fc.constantFrom(1, 2), fc.constantFrom('1', '2')).map(some => identityOf(...some)),
  stepsMax: fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.nat(60)),
  lost: fc.array(fc.boolean(), { maxLength: 6 }),
})

test('a number has one log, and a log one number and one writer, whatever is late, lost or dead', async () => {
  await fc.assert(
    fc.asyncProperty(fc.scheduler(), fc.array(anyProcess, { minLength: 2, maxLength: 4 }), async (scheduler, processes) => {
      const schedule = () => scheduler.schedule(Promise.resolve())
      const registry = openRegistry(schedule)
      const owners = new Map<string, string>()
      function own(what: string, owner: string): void {
        expect([what, owners.get(what) ?? owner]).toEqual([what, owner])
        owners.set(what, owner)
      }
      async function attempts(connection: Connection, identity: LogIdentity): Promise<number | undefined> {
        for (let attempt = 0; attempt < 4; attempt++) {
          try {
            const number = await take(connection, identity)
            own(`number ${number}`, `${identity.logName} of ${identity.writer}`)
            own(`log ${identity.logName}`, `${number} of ${identity.writer}`)
            return number
          } catch (error) {
            if (!(error instanceof SinkError) && (error as Error).message !== 'no answer') throw error
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
        const taking = attempts(
          registry.connect(step, () => lost[writes++] === true),
          identity,
        )
        if (stepsMax === Number.POSITIVE_INFINITY) running.push(taking)
        else taking.catch(error => faults.push(error))
      }
      await scheduler.waitFor(Promise.all(running))
      await scheduler.waitIdle()
      expect(faults).toEqual([])
      // Whatever the dead have left, another log gets its number.
      const fresh = registry.connect(schedule, () => false)
      expect(await scheduler.waitFor(attempts(fresh, identityOf('fresh', 9)))).toBe(9)
      for (const { number, name, writer } of await scheduler.waitFor(readLogs(fresh))) {
        own(`number ${number}`, `${name} of ${writer}`)
        own(`log ${name}`, `${number} of ${writer}`)
      }
    }),
    { numRuns: 300 },
  )
})

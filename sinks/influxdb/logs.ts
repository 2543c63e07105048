// The registration of a log in the store: its small number, and the one writer that it belongs to.
//
// InfluxDB cannot compare and set, so a log is claimed before it is settled. The measurement `claims` holds a point for each number and claimant, a
// random id; `logs` holds those that are settled, under the same two tags. Who wants a log that is not settled
// 1. waits while a claim that is in its way stands; then it writes its own, of the next number,
// 2. reads all claims, and where none is in its way writes the log to `logs`, and is done when its claim still stands;
// 3. where one is, withdraws its own, unless its id is the smallest of them all, waits a random time, and begins again from reading.
// In the way is a claim that stands, is not settled, and is of another log or writer under the same number, or of another writer or id under
// the same name. Each writes before it reads, and what was acknowledged is seen by every later query: of two that are in each other's way at
// most one sees none. Workers of one writer are in nobody's way: they claim and settle the same.
//
// A claim whose process died before it was settled stays. One that stood in the way for some rounds, and did not move, is taken for dead and
// withdrawn. Should its process only have slept, then it finds its claim gone after it has settled, and begins again; until then nobody takes a
// log for settled whose claim was withdrawn. And should it have settled in the same moment, whoever withdrew it sees that, and gives the claim back.

import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { checkUnread, chooseLog, type LogIdentity, type RegisteredLog } from '../log-registry.ts'
import { SinkError } from '../sink-error.ts'
import type { Connection } from './connection.ts'
import { stringText } from './line-protocol.ts'
import { readRegistry, registryNs, textField, writeRegistry } from './registry.ts'
import type { StoredPoint } from './stored-points.ts'

const roundsMax = 200
/** So often a claim is found as it was before its claimant is taken for dead. One that waits writes its claim anew in each of its own rounds. */
const deadAfterRounds = 12
const waitMsMax = 1_000

interface Entry extends RegisteredLog {
  readonly claimant: string
}

interface Claim extends Entry {
  readonly withdrawn: boolean
  /** Grows with each time that its claimant tries. */
  readonly attempt: number
}

interface Settled extends Entry {
  /** Milliseconds since 1970. */
  readonly acceptedAtMs: number
}

interface Registered {
  readonly claims: readonly Claim[]
  /** All that were written to `logs`. */
  readonly settled: readonly Settled[]
  /** Those of them whose claim stands, the one that is written from now first; each number once. */
  readonly logs: readonly Settled[]
}

/**
 * @returns the number under which the store knows the log
 * @throws SinkError (systemic) where another writer owns the log, where its id has changed, where no number is left, and where the log was read
 * before into another store; (transient) where others are registering all the time
 */
export async function registerLog(connection: Connection, identity: LogIdentity): Promise<number> {
  const claimant = randomUUID()
  const { logName: name, logId: id, writer } = identity
  const deaths = deathWatch(connection)
  let own: Claim | undefined
  let checked = false
  for (let attempt = 1; attempt <= roundsMax; attempt++) {
    const startedMs = performance.now()
    const before = await readRegistered(connection)
    const { number, state } = chooseLog(before.logs, identity)
    if (state === 'known') return number
    if (state === 'again') {
      const known = before.logs.find(log => log.number === number)!
      await writeRegistry(connection, [settledLine(known, before.settled)])
      return number
    }
    if (!checked) {
      await checkUnread(identity, () => readLogs(connection))
      checked = true
      // It may be known by now.
      continue
    }
    if (own !== undefined && own.number !== number) {
      await writeRegistry(connection, [claimLine({ ...own, withdrawn: true })])
      own = undefined
    }

    const wanted: Claim = { number, name, id, writer, claimant, attempt, withdrawn: false }
    let rivals = own === undefined ? rivalsOf(wanted, before, before) : []
    if (rivals.length === 0) {
      own = wanted
      await writeRegistry(connection, [claimLine(own)])
      rivals = rivalsOf(own, before, await readRegistered(connection))
      if (rivals.length === 0) {
        await writeRegistry(connection, [settledLine(own, before.settled)])
        const { claims } = await readRegistered(connection)
        if (claims.some(claim => isSame(claim, wanted) && !claim.withdrawn)) return number
        own = undefined
      } else if (rivals.some(rival => rival.claimant < claimant)) {
        await writeRegistry(connection, [claimLine({ ...own, withdrawn: true })])
        own = undefined
      }
    }
    await deaths.see(rivals)
    await wait(Math.random() * Math.min(waitMsMax, 20 + performance.now() - startedMs))
  }
  throw new SinkError(
    'transient',
    `the log "${name}" could not be registered: other writers have been claiming the same numbers all the time`,
  )
}

/** Withdraws claims that have stood in the way for some rounds without a sign of life of their claimants. */
function deathWatch(connection: Connection) {
  const rounds = new Map<string, number>()
  return {
    async see(rivals: readonly Claim[]): Promise<void> {
      for (const rival of rivals) {
        const seen = `${rival.number} ${rival.claimant} ${rival.attempt}`
        const times = (rounds.get(seen) ?? 0) + 1
        rounds.set(seen, times)
        if (times >= deadAfterRounds) await withdraw(connection, rival)
      }
    },
  }
}

function rivalsOf(own: Claim, before: Registered, now: Registered): Claim[] {
  return now.claims.filter(claim => {
    if (claim.withdrawn || before.logs.some(log => log.number === claim.number)) return false
    const isOurs = claim.name === own.name && claim.id === own.id && claim.writer === own.writer
    return !isOurs && (claim.number === own.number || claim.name === own.name)
  })
}

async function withdraw(connection: Connection, rival: Claim): Promise<void> {
  await writeRegistry(connection, [claimLine({ ...rival, withdrawn: true })])
  const { settled } = await readRegistered(connection)
  if (settled.some(log => isSame(log, rival))) await writeRegistry(connection, [claimLine(rival)])
}

function isSame(one: Entry, other: Entry): boolean {
  return one.number === other.number && one.claimant === other.claimant
}

export async function readLogs(connection: Connection): Promise<readonly RegisteredLog[]> {
  const { logs } = await readRegistered(connection)
  return logs
}

async function readRegistered(connection: Connection): Promise<Registered> {
  const points = await readRegistry(connection, ['claims', 'logs'])
  const claims = points.filter(({ measurement }) => measurement === 'claims').map(claimOf)
  const settled = points
    .filter(({ measurement }) => measurement === 'logs')
    .map(point => ({ ...entryOf(point), acceptedAtMs: Date.parse(textField(point, 'accepted_at')) || 0 }))
    .sort((one, other) => other.acceptedAtMs - one.acceptedAtMs || other.number - one.number)
  const standing = settled.filter(log => claims.some(claim => isSame(claim, log) && !claim.withdrawn))
  const logs = standing.filter((log, at) => standing.findIndex(({ number }) => number === log.number) === at)
  return { claims, settled, logs }
}

function entryOf(point: StoredPoint): Entry {
  return {
    number: Number(point.tags.get('number')),
    claimant: point.tags.get('claimant') ?? '',
    name: textField(point, 'name'),
    id: textField(point, 'id'),
    writer: textField(point, 'writer'),
  }
}

function claimOf(point: StoredPoint): Claim {
  return { ...entryOf(point), withdrawn: point.fields.get('withdrawn') === true, attempt: Number(point.fields.get('attempt') ?? 0) }
}

function claimLine(claim: Claim): string {
  return `claims,${keyOf(claim)} ${textsOf(claim)},withdrawn=${claim.withdrawn},attempt=${claim.attempt}i ${registryNs}`
}

/** Of a log that is written from now: it comes after all that are there, whatever this machine's clock says. */
function settledLine(log: Entry, settled: readonly Settled[]): string {
  const acceptedAtMs = settled.reduce((latest, one) => Math.max(latest, one.acceptedAtMs + 1), Date.now())
  return `logs,${keyOf(log)} ${textsOf(log)},accepted_at="${new Date(acceptedAtMs).toISOString()}" ${registryNs}`
}

function keyOf({ number, claimant }: Entry): string {
  return `claimant=${claimant},number=${number}`
}

/** @throws SinkError (systemic) for a text that the registry cannot hold */
function textsOf(entry: Entry): string {
  return (['name', 'id', 'writer'] as const)
    .map(key => {
      const text = stringText(entry[key])
      if (text !== undefined) return `${key}=${text}`
      throw new SinkError('systemic', `the ${key} of the log cannot be kept by InfluxDB: it holds a NUL or half a surrogate pair`)
    })
    .join(',')
}

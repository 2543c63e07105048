// The exact check behind a load: each message that was acknowledged is in the store once, with all its rows and their values, or it is a
// dead letter, or it has none; and what was not acknowledged is there at most once. It trusts nothing of the writer's.

import { readTopic } from '../pipeline/kafka/stored-messages.ts'
import type { Load } from './load.ts'
import { numberIn } from './messages.ts'
import type { Books, StoreSite } from './stores/store-site.ts'

export interface Counted {
  readonly sent: number
  readonly acknowledged: number
  /** Not acknowledged, and in the log all the same. */
  readonly unacknowledgedInLog: number
  readonly messages: number
  readonly rows: number
  readonly deadLetters: number
  /** Of the dead letters, those that are another one once more: a crash may double one. */
  readonly doubledLetters: number
  readonly empty: number
}

export interface CheckResult {
  readonly counted: Counted
  /** What is wrong; empty where all is right. */
  readonly faults: readonly string[]
}

export interface Checked {
  readonly load: Load
  readonly store: Pick<StoreSite, 'rows' | 'books'>
  readonly brokers: readonly string[]
  readonly topic: string
  readonly writer: string
  /** By partition, where the log ends. */
  readonly ends: ReadonlyMap<number, number>
}

const faultsMax = 10

export async function check({ load, store, brokers, topic, writer, ends }: Checked): Promise<CheckResult> {
  const faults: string[] = []
  let faultCount = 0
  const fault = (text: string): void => {
    faultCount++
    if (faults.length < faultsMax) faults.push(text)
  }

  /** By number, the place at which its rows are. */
  const stored = new Map<number, string>()
  let rows = 0
  let current: { partition: number; offset: number; table: string; texts: string[]; indexes: number[] } | undefined

  function settle(): void {
    if (current === undefined) return
    const { partition, offset, table, texts, indexes } = current
    const place = `${partition}-${offset}`
    const number = numberIn(texts[0]!)
    if (number === undefined || number >= load.sent()) return fault(`${place} in ${table}: rows that nobody sent: ${texts[0]}`)
    const before = stored.get(number)
    if (before !== undefined) fault(`message ${number} is stored twice: at ${before} and at ${place}`)
    stored.set(number, place)
    const { expected } = load.message(number)
    if (!('rows' in expected)) return fault(`message ${number} at ${place} is in ${table}, and should be ${JSON.stringify(expected)}`)
    const isRight =
      table === expected.table &&
      texts.length === expected.rows.length &&
      texts.every((text, at) => text === expected.rows[at] && indexes[at] === at)
    if (!isRight)
      fault(
        `message ${number} at ${place} is ${texts.join(', ')} (${indexes.join()}) in ${table}, and should be ${expected.rows.join(', ')} in ${expected.table}`,
      )
    const acknowledged = load.placeOf(number)
    if (acknowledged !== undefined && `${acknowledged.partition}-${acknowledged.offset}` !== place) {
      fault(`message ${number} is stored from ${place}, and was acknowledged at ${acknowledged.partition}-${acknowledged.offset}`)
    }
  }

  for await (const row of store.rows()) {
    rows++
    if (current?.partition !== row.partition || current.offset !== row.offset || current.table !== row.table) {
      settle()
      current = { partition: row.partition, offset: row.offset, table: row.table, texts: [], indexes: [] }
    }
    current.texts.push(row.text)
    current.indexes.push(row.index)
  }
  settle()

  const letters = new Map<number, string>()
  let doubledLetters = 0
  for (const { key, value, headers } of await readTopic(brokers, `${topic}.dead-letters.${writer}`)) {
    const header = (name: string): string | undefined => headers.findLast(([found]) => found === name)?.[1]?.toString()
    const place = `${header('sluice.partition')}-${header('sluice.offset')}`
    const number = numberIn(value.toString())
    if (number === undefined) {
      fault(`a dead letter of ${place} that nobody sent: ${value.toString().slice(0, 100)}`)
      continue
    }
    const before = letters.get(number)
    if (before === place) {
      doubledLetters++
      continue
    }
    if (before !== undefined) fault(`message ${number} is a dead letter at ${before} and at ${place}`)
    letters.set(number, place)
    const { expected, outgoing } = load.message(number)
    const rule = header('sluice.rule')
    if (!('rule' in expected) || expected.rule !== rule)
      fault(`message ${number} at ${place} is a dead letter by ${rule}, and should be ${JSON.stringify(expected)}`)
    if (!value.equals(outgoing.payload)) fault(`the dead letter of message ${number} at ${place} has another payload`)
    if ((key?.toString() ?? '') !== outgoing.channel) fault(`the dead letter of message ${number} at ${place} has another key`)
    if (header('__connect.errors.topic') !== topic)
      fault(`the dead letter of message ${number} names the topic ${header('__connect.errors.topic')}`)
  }

  let empty = 0
  let unacknowledgedInLog = 0
  for (let number = 0; number < load.sent(); number++) {
    const { expected } = load.message(number)
    const place = load.placeOf(number)
    const found = stored.get(number) ?? letters.get(number)
    if (stored.has(number) && letters.has(number)) fault(`message ${number} is stored, and a dead letter`)
    if (place === undefined) {
      if (found !== undefined) unacknowledgedInLog++
      continue
    }
    if ('empty' in expected) empty++
    else if (found === undefined) fault(`message ${number} was acknowledged at ${place.partition}-${place.offset}, and is nowhere`)
  }

  if (store.books !== undefined) checkBooks(await store.books(), ends, { stored: stored.size, deadLettered: letters.size }, fault)
  if (faultCount > faults.length) faults.push(`and ${faultCount - faults.length} more`)
  const acknowledged = load.acknowledged()
  return {
    counted: {
      sent: load.sent(),
      acknowledged,
      unacknowledgedInLog,
      messages: stored.size,
      rows,
      deadLetters: letters.size,
      doubledLetters,
      empty,
    },
    faults,
  }
}

/** The store's own books add up, and say what was counted. */
function checkBooks(
  books: readonly Books[],
  ends: ReadonlyMap<number, number>,
  counted: { readonly stored: number; readonly deadLettered: number },
  fault: (text: string) => void,
): void {
  let [stored, deadLettered] = [0, 0]
  for (const row of books) {
    const where = `the books of partition ${row.partition}: ${JSON.stringify(row)}`
    if (row.received !== row.stored + row.empty + row.filtered + row.duplicate + row.dead_lettered) fault(`${where} do not add up`)
    if (row.received - row.duplicate + row.skipped !== row.next_offset) fault(`${where} do not come to where the partition goes on`)
    if (row.next_offset !== ends.get(row.partition)) fault(`${where} end elsewhere than the log, at ${ends.get(row.partition)}`)
    if (row.skipped !== 0 || row.lost !== 0 || row.filtered !== 0) fault(`${where} tell of messages that were passed over`)
    stored += row.stored
    deadLettered += row.dead_lettered
  }
  if (stored !== counted.stored) fault(`the books say ${stored} stored, and ${counted.stored} were counted`)
  if (deadLettered !== counted.deadLettered) fault(`the books say ${deadLettered} dead-lettered, and ${counted.deadLettered} were counted`)
}

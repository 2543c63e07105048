// The exact check after a load: each acknowledged message is in the store once, with all its rows and their values, or it is a dead letter,
// or it has no rows; unacknowledged ones are there at most once. A dead letter has rows only if one of its letters says that it is partial.
// Uses no code of the writer.

import { logPartition } from '../../transformers/log-partition.ts'
import { readTopic } from '../pipeline/kafka/stored-messages.ts'
import type { Load } from './load.ts'
import { numberIn } from './messages.ts'
import type { Books, StoredRow } from './stores/store-site.ts'

export interface Counted {
  readonly sent: number
  readonly acknowledged: number
  /** Not acknowledged, but in the log. */
  readonly unacknowledgedInLog: number
  readonly messages: number
  readonly rows: number
  readonly deadLetters: number
  /** Dead letters that repeat another one: a crash may duplicate one. */
  readonly doubledLetters: number
  /** Dead letters that left rows. */
  readonly partial: number
  readonly empty: number
}

export interface CheckResult {
  readonly counted: Counted
  /** Empty if everything is right. */
  readonly faults: readonly string[]
}

export interface Checked {
  readonly load: Load
  readonly rows: AsyncIterable<StoredRow>
  /** Of a store that keeps positions. */
  readonly books: readonly Books[] | undefined
  readonly brokers: readonly string[]
  readonly topics: readonly string[]
  readonly writer: string
  /** The ends of the log by partition. */
  readonly ends: ReadonlyMap<number, number>
}

const faultsMax = 10

export async function check({ load, rows, books, brokers, topics, writer, ends }: Checked): Promise<CheckResult> {
  const faults: string[] = []
  let faultCount = 0
  const fault = (text: string): void => {
    faultCount++
    if (faults.length < faultsMax) faults.push(text)
  }

  /** The place of a message's rows, by its number. */
  const stored = new Map<number, string>()
  /** The same for messages that the store must refuse. */
  const left = new Map<number, string>()
  let rowCount = 0
  let current: { partition: number; offset: number; table: string; texts: string[]; indexes: number[] } | undefined

  function settle(): void {
    if (current === undefined) return
    const { partition, offset, table, texts, indexes } = current
    const place = `${partition}-${offset}`
    const number = numberIn(texts[0]!)
    if (number === undefined || number >= load.sent()) return fault(`${place} in ${table}: rows that were not sent: ${texts[0]}`)
    const before = stored.get(number)
    if (before !== undefined) fault(`message ${number} is stored twice: at ${before} and at ${place}`)
    const { expected } = load.message(number)
    if ('rule' in expected && expected.rule === 'store-refused') return void left.set(number, place)
    stored.set(number, place)
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

  for await (const row of rows) {
    rowCount++
    if (current?.partition !== row.partition || current.offset !== row.offset || current.table !== row.table) {
      settle()
      current = { partition: row.partition, offset: row.offset, table: row.table, texts: [], indexes: [] }
    }
    current.texts.push(row.text)
    current.indexes.push(row.index)
  }
  settle()

  const deadLetters = new Map<number, string>()
  const partial = new Set<number>()
  let doubledLetters = 0
  for (const { log, topic, key, value, headers } of await deadLettersOf(brokers, topics, writer)) {
    const header = (name: string): string | undefined => headers.findLast(([found]) => found === name)?.[1]?.toString()
    const place = `${logPartition(log, Number(header('sluice.partition')))}-${header('sluice.offset')}`
    const number = numberIn(value.toString())
    if (number === undefined) {
      fault(`a dead letter of ${place} that was not sent: ${value.toString().slice(0, 100)}`)
      continue
    }
    if (header('sluice.partial') === 'true') partial.add(number)
    const before = deadLetters.get(number)
    if (before === place) {
      doubledLetters++
      continue
    }
    if (before !== undefined) fault(`message ${number} is a dead letter at ${before} and at ${place}`)
    deadLetters.set(number, place)
    const { expected, outgoing } = load.message(number)
    const rule = header('sluice.rule')
    if (!('rule' in expected) || expected.rule !== rule)
      fault(`message ${number} at ${place} is a dead letter by ${rule}, and should be ${JSON.stringify(expected)}`)
    if (!value.equals(outgoing.payload)) fault(`the dead letter of message ${number} at ${place} has another payload`)
    if ((key?.toString() ?? '') !== outgoing.channel) fault(`the dead letter of message ${number} at ${place} has another key`)
    if (header('__connect.errors.topic') !== topic)
      fault(`the dead letter of message ${number} names the topic ${header('__connect.errors.topic')}`)
  }

  for (const [number, place] of left) {
    if (!partial.has(number)) fault(`message ${number} at ${place} is to be refused, and has rows that no dead letter tells of`)
    if (deadLetters.get(number) !== place)
      fault(`message ${number} has rows at ${place}, and its dead letter is of ${deadLetters.get(number)}`)
  }

  let empty = 0
  let unacknowledgedInLog = 0
  for (let number = 0; number < load.sent(); number++) {
    const { expected } = load.message(number)
    const place = load.placeOf(number)
    const found = stored.get(number) ?? deadLetters.get(number)
    if (stored.has(number) && deadLetters.has(number)) fault(`message ${number} is stored, and a dead letter`)
    if (place === undefined) {
      if (found !== undefined) unacknowledgedInLog++
      continue
    }
    if ('empty' in expected) empty++
    else if (found === undefined) fault(`message ${number} was acknowledged at ${place.partition}-${place.offset}, and is nowhere`)
  }

  if (books !== undefined) checkBooks(books, ends, { stored: stored.size, deadLettered: deadLetters.size }, fault)
  if (faultCount > faults.length) faults.push(`and ${faultCount - faults.length} more`)
  const acknowledged = load.acknowledged()
  return {
    counted: {
      sent: load.sent(),
      acknowledged,
      unacknowledgedInLog,
      messages: stored.size,
      rows: rowCount,
      deadLetters: deadLetters.size,
      doubledLetters,
      partial: left.size,
      empty,
    },
    faults,
  }
}

/** By topic, and its index. */
async function deadLettersOf(brokers: readonly string[], topics: readonly string[], writer: string) {
  const found = topics.map(async (topic, log) => {
    const messages = await readTopic(brokers, `${topic}.dead-letters.${writer}`)
    return messages.map(message => ({ log, topic, ...message }))
  })
  return (await Promise.all(found)).flat()
}

/** The store's ledger adds up, and agrees with the counts. */
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

// Fields of another type than InfluxDB has them: what its answers tell, and which lines hold such a field again.
//
// A point that is refused leaves the other points of its message stored, and to delete them takes the server long (a second, while its cache is
// full). So what was refused once is remembered, and lines that hold the same are sent before all others: their messages are refused then before
// anything else of them was sent. It is noted in the registry too: a worker that takes the place of another knows what that one has learnt.

import { createHash } from 'node:crypto'
import type { Connection } from './connection.ts'
import type { EncodedBatch } from './encoded-batch.ts'
import type { ResponseError } from './errors.ts'
import { stringText } from './line-protocol.ts'
import { physicalName } from './physical-name.ts'
import { readRegistry, registryNs, textField, writeRegistry } from './registry.ts'

/** So many are remembered for a measurement, and so many measurements that have any. */
const conflictsMax = 32
const measurementsMax = 1_000
/** Devices name their fields: a sink that knows so many notes no more in the registry, where they stay. */
const notedMax = 1_000
const registered = 'conflicts'

export interface Conflict {
  readonly measurement: string
  readonly field: string
  /** Of the value that was refused: `string`, `float`. */
  readonly type: string
}

const said = /input field ("(?:[^"\\]|\\.)*") on measurement ("(?:[^"\\]|\\.)*") is type (\w+)/
const beginnings: Readonly<Record<string, RegExp>> = { string: /^"/, boolean: /^[tf]/, float: /^[-\d]/, integer: /^[-\d]/ }

/** What the server refuses; undefined where it is something else than a type. */
export function conflictOf(error: ResponseError): Conflict | undefined {
  const [, field, measurement, type] = said.exec(error.said) ?? []
  if (field === undefined || measurement === undefined || type === undefined || beginnings[type] === undefined) return undefined
  const names = { field: unquoted(field), measurement: unquoted(measurement) }
  return names.field === undefined || names.measurement === undefined
    ? undefined
    : { field: names.field, measurement: names.measurement, type }
}

/** What stands behind a backslash in a string of Go for a character (The Go Programming Language Specification, Rune literals). */
const goEscapes: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
  '\\': '\\',
  '"': '"',
}
const goEscape = /\\(?:x([\da-f]{2})|u([\da-f]{4})|U([\da-f]{8})|(.))/g

/** A text in quotes as Go's `%q` has it; undefined where it holds a byte that is no text, which is none of ours. */
function unquoted(quoted: string): string | undefined {
  let isText = true
  const text = quoted.slice(1, -1).replaceAll(goEscape, (_all, byte?: string, four?: string, eight?: string, one?: string) => {
    const code = Number.parseInt(byte ?? four ?? eight ?? '', 16)
    const character = one === undefined ? codeText(code, byte === undefined ? 0x10_ffff : 0x7f) : goEscapes[one]
    if (character === undefined) isText = false
    return character ?? ''
  })
  return isText ? text : undefined
}

function codeText(code: number, codeMax: number): string | undefined {
  return code <= codeMax ? String.fromCodePoint(code) : undefined
}

/** Whether a line may hold such a field. It may also be a text that reads so, which is no harm: the server decides. */
export function mayHold(line: string, { measurement, field, type }: Conflict): boolean {
  if (!line.startsWith(`${measurement},`) && !line.startsWith(`${measurement} `)) return false
  const key = `,${field.replaceAll(/[,= "]/g, '\\$&')}=`
  for (let at = line.indexOf(key); at >= 0; at = line.indexOf(key, at + 1)) {
    if (beginnings[type]!.test(line.slice(at + key.length, at + key.length + 1))) return true
  }
  return false
}

export interface KnownConflicts {
  remember(error: ResponseError): void
  /** Notes in the registry what was learnt since; what fails is noted by the next call. */
  note(signal: AbortSignal): Promise<void>
  /** Lines that are still to be stored which may hold what was refused before. */
  suspects(encoded: EncodedBatch, textOf: (line: number) => string): number[]
}

/** Knows from the start what is noted. */
export async function openConflicts(connection: Connection): Promise<KnownConflicts> {
  const known = new Map<string, Conflict[]>()
  const unnoted: string[] = []
  let noted = 0
  for (const point of await readRegistry(connection, [registered])) {
    add({ measurement: textField(point, 'of'), field: textField(point, 'field'), type: textField(point, 'type') })
    noted++
  }

  /** @returns false where it is known */
  function add(conflict: Conflict): boolean {
    if (beginnings[conflict.type] === undefined) return false
    const some = known.get(conflict.measurement) ?? []
    if (some.some(({ field, type }) => field === conflict.field && type === conflict.type)) return false
    if (some.push(conflict) > conflictsMax) some.shift()
    // The one that was learnt last goes last; the oldest is forgotten.
    known.delete(conflict.measurement)
    known.set(conflict.measurement, some)
    if (known.size > measurementsMax) known.delete(known.keys().next().value!)
    return true
  }

  return {
    remember(error) {
      const conflict = conflictOf(error)
      if (conflict === undefined || !add(conflict) || noted + unnoted.length >= notedMax) return
      const line = registryLine(conflict)
      if (line !== undefined) unnoted.push(line)
    },
    async note(signal) {
      if (unnoted.length === 0) return
      const lines = [...unnoted]
      await writeRegistry(connection, lines, signal)
      noted += lines.length
      unnoted.splice(0, lines.length)
    },
    suspects({ formats, lines, rejected, stored }, textOf) {
      if (known.size === 0) return []
      const suspected = new Map<number, readonly Conflict[]>()
      for (const { format, messages } of formats) {
        const conflicts = known.get(physicalName(format))
        if (conflicts !== undefined) for (const message of messages) if (!rejected.has(message)) suspected.set(message, conflicts)
      }
      const found: number[] = []
      if (suspected.size === 0) return found
      for (let line = 0; line < lines.length; line++) {
        const conflicts = suspected.get(lines.message[line]!)
        if (conflicts === undefined || stored.has(line)) continue
        const text = textOf(line)
        if (conflicts.some(conflict => mayHold(text, conflict))) found.push(line)
      }
      return found
    },
  }
}

/** The names are any text, and are told apart by a hash; undefined where one cannot be kept. */
function registryLine({ measurement, field, type }: Conflict): string | undefined {
  const [of, name] = [stringText(measurement), stringText(field)]
  if (of === undefined || name === undefined) return undefined
  const id = createHash('sha256')
    .update(JSON.stringify([measurement, field, type]))
    .digest('hex')
    .slice(0, 32)
  return `${registered},id=${id} of=${of},field=${name},type="${type}" ${registryNs}`
}

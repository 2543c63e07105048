// The registry of JSON formats: which collection holds which, added when it is first needed, within a cap.
//
// A format is named by a device, so it is hostile: one device must not make collections without end. Formats are numbered from 1, and
// the next number is had by one writer alone in the whole store, so that no two can pass the cap together. What is refused is remembered for
// moments: a device that names new formats without end must not have the registry read for each batch.

import type { Db } from 'mongodb'
import { admitFormats, type FormatRefusal, type WantedFormat } from '../format-registry.ts'
import { RefusedFormats } from '../refused-formats.ts'
import type { Connection } from './connection.ts'
import { isErrorOf } from './errors.ts'
import { makeIndexes, rowIndexes } from './indexes.ts'
import { inLanes } from './lanes.ts'
import { insertNumbered, nextNumber, readNumbered, untilAdded } from './numbered.ts'
import type { SinkOptions } from './options.ts'
import { physicalName } from './physical-name.ts'

/** A document of `sluice.formats`. */
export interface FormatEntry {
  /** The format. */
  readonly _id: string
  /** From 1, in the order in which they were added. */
  readonly number: number
  readonly collection: string
  /** The one that brought it. */
  readonly channel: string
  readonly createdAt: Date
}

export interface FormatCollections {
  /** By format. */
  readonly names: ReadonlyMap<string, string>
  readonly refused: ReadonlyMap<string, FormatRefusal>
}

export interface Formats {
  /** The collections of these formats, made where they are missing. Costs nothing for formats that were asked for before. */
  resolve(wanted: readonly WantedFormat[], signal: AbortSignal): Promise<FormatCollections>
  /** Forgets what is known: the store may have gone back to what it was before. */
  forget(): void
}

interface Registration {
  readonly registered: readonly FormatEntry[]
  readonly refused: Map<string, FormatRefusal>
}

export const formatsCollection = 'sluice.formats'
const preparedAtOnce = 4
const denied = 13
const invalidNamespace = 73

/** All formats that the store has. */
export function readFormats(database: Db, signal?: AbortSignal): Promise<FormatEntry[]> {
  return readNumbered(database.collection<FormatEntry>(formatsCollection), 'number', signal)
}

/** @param nowMs of a clock that only goes forward */
export function openFormats(connection: Connection, options: SinkOptions, nowMs: () => number = () => performance.now()): Formats {
  const { database } = connection
  const known = new Map<string, string>()
  const refusedLately = new RefusedFormats(nowMs)

  async function resolve(wanted: readonly WantedFormat[], signal: AbortSignal): Promise<FormatCollections> {
    const names = new Map<string, string>()
    const { refused, missing } = refusedLately.sort(wanted, format => known.has(format))
    for (const { format } of wanted) if (known.has(format)) names.set(format, known.get(format)!)
    if (missing.length === 0) return { names, refused }
    const { registered, refused: refusedNow } = await untilAdded(() => register(missing, signal), 'JSON formats could not be added', signal)
    const collections = new Map(registered.map(({ _id, collection }) => [_id, collection]))
    const prepared = missing.filter(({ format }) => collections.has(format)).map(({ format }) => format)
    await inLanes(prepared, preparedAtOnce, async format => {
      const name = collections.get(format)!
      const refusal = await prepare(format, name, signal)
      if (refusal === undefined) {
        known.set(format, name)
        names.set(format, name)
      } else refusedNow.set(format, refusal)
    })
    for (const want of missing) {
      const refusal = refusedNow.get(want.format)
      if (refusal === undefined) continue
      refused.set(want.format, refusal)
      refusedLately.add(want, refusal)
    }
    return { names, refused }
  }

  /** All formats that the store has, the wanted ones among them that may be added; and the others. */
  async function register(wanted: readonly WantedFormat[], signal: AbortSignal): Promise<Registration> {
    const registered = await readFormats(database, signal)
    const admitted = admitFormats(
      registered.map(({ _id, channel }) => ({ format: _id, channel })),
      wanted,
      options,
    )
    let number = nextNumber(registered, 'number')
    const createdAt = new Date()
    const added = admitted.added.map(
      ({ format, channel }): FormatEntry => ({ _id: format, number: number++, collection: physicalName(format), channel, createdAt }),
    )
    const refused = new Map(admitted.refused)
    if (added.length === 0) return { registered, refused }
    try {
      await insertNumbered(connection, formatsCollection, added, signal)
    } catch (error) {
      if (!isErrorOf(error, denied)) throw error
      for (const { _id } of added) refused.set(_id, notAllowed(error.message))
      return { registered, refused }
    }
    return { registered: [...registered, ...added], refused }
  }

  /** Makes the collection by making its indexes. */
  async function prepare(format: string, collection: string, signal: AbortSignal): Promise<FormatRefusal | undefined> {
    try {
      const missing = await makeIndexes(connection, collection, rowIndexes('created'), signal)
      return missing.length === 0 ? undefined : notAllowed(`the collection "${collection}" has not the indexes ${missing.join(' and ')}`)
    } catch (error) {
      if (!isErrorOf(error, invalidNamespace)) throw error
      // Whoever reads all formats would meet the name that the server refuses.
      const command = { delete: formatsCollection, deletes: [{ q: { _id: format }, limit: 1 }], writeConcern: { w: 'majority' } }
      await connection.command(command, signal)
      return notACollection(error.message)
    }
  }

  return {
    resolve,
    forget() {
      known.clear()
      refusedLately.clear()
    },
  }
}

/**
 * A user who may make no collection gets messages of new formats rejected, not the writer stopped: a device names its formats, and one of them
 * must not keep the others' messages from being stored. A replay stores them, once an operator has allowed it.
 */
function notAllowed(reason: string): FormatRefusal {
  return {
    rule: 'format-not-allowed',
    reason: `the format has no collection with its indexes, and the writer's user may not make one: ${reason}`,
    hint: 'give the user the right createIndex on the database, then replay the message',
  }
}

function notACollection(reason: string): FormatRefusal {
  return {
    rule: 'store-refused',
    reason: `the server takes no collection of this name: ${reason}`,
    hint: 'publish to a subtopic whose last part is another word',
  }
}

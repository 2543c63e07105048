// The registry of JSON formats: which collection holds which, added when it is first needed, within a cap.
//
// A format is named by a device, so it is hostile: one device must not make collections without end. Formats are numbered from 1, and
// the next number is had by one writer alone in the whole store, so that no two can pass the cap together.

import type { Db } from 'mongodb'
import { admitFormats, type FormatRefusal, type WantedFormat } from '../format-registry.ts'
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

export const formatsCollection = 'sluice.formats'
const preparedAtOnce = 4
const denied = 13
const invalidNamespace = 73

/** All formats that the store has. */
export function readFormats(database: Db, signal?: AbortSignal): Promise<FormatEntry[]> {
  return readNumbered(database.collection<FormatEntry>(formatsCollection), 'number', signal)
}

export function openFormats(connection: Connection, options: SinkOptions): Formats {
  const { database } = connection
  const known = new Map<string, string>()

  async function resolve(wanted: readonly WantedFormat[], signal: AbortSignal): Promise<FormatCollections> {
    const names = new Map<string, string>()
    const refused = new Map<string, FormatRefusal>()
    const missing: WantedFormat[] = []
    for (const want of wanted) {
      const name = known.get(want.format)
      if (name === undefined) missing.push(want)
      else names.set(want.format, name)
    }
    if (missing.length === 0) return { names, refused }
    const registered = await untilAdded(() => register(missing, refused, signal), 'JSON formats could not be added', signal)
    const collections = new Map(registered.map(({ _id, collection }) => [_id, collection]))
    const prepared = missing.filter(({ format }) => collections.has(format)).map(({ format }) => format)
    await inLanes(prepared, preparedAtOnce, async format => {
      const name = collections.get(format)!
      const refusal = await prepare(format, name, signal)
      if (refusal === undefined) {
        known.set(format, name)
        names.set(format, name)
      } else refused.set(format, refusal)
    })
    return { names, refused }
  }

  /** All formats that the store has, the wanted ones among them that may be added. */
  async function register(
    wanted: readonly WantedFormat[],
    refused: Map<string, FormatRefusal>,
    signal: AbortSignal,
  ): Promise<FormatEntry[]> {
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
    refused.clear()
    for (const [format, refusal] of admitted.refused) refused.set(format, refusal)
    if (added.length === 0) return registered
    try {
      await insertNumbered(database, formatsCollection, added, signal)
    } catch (error) {
      if (!isErrorOf(error, denied)) throw error
      for (const { _id } of added) refused.set(_id, notAllowed(error.message))
      return registered
    }
    return [...registered, ...added]
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
      await database.command(command, { signal })
      return notACollection(error.message)
    }
  }

  return { resolve, forget: () => known.clear() }
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

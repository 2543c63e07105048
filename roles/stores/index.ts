// The stores that a writer can write to, each opened by its own folder and loaded only where it is asked for.

import { SystemicError } from '../pipeline/systemic-error.ts'
import type { ErrorClass, Sink } from '../sinks/sink.ts'
import type { StoreName, WriterOptions } from './writer-options.ts'

/** Which log a sink is written from, and by whom. */
export interface SinkIdentity {
  readonly logName: string
  readonly logId: string
  readonly writer: string
  readonly acceptNewLog: boolean
}

export interface Store {
  /** @param onNotice told of what the store does without: a right that it was not given, say */
  openSink(identity: SinkIdentity, onNotice: (sentence: string) => void): Promise<Sink>
  /** What an error of `openSink` means. */
  classify(error: unknown): ErrorClass
  /** Once in a process, now and then: what the store needs beside writing. */
  maintain(): Promise<void>
  close(): Promise<void>
}

/**
 * Opens the store of this name, whose folder and driver are loaded here. It connects when it is first used.
 *
 * @throws SystemicError for a name that is none
 */
export async function openStore(name: StoreName, options: WriterOptions['store'], writer: string): Promise<Store> {
  switch (name) {
    case 'relational': {
      const { openRelationalStore } = await import('./relational-store.ts')
      return await openRelationalStore(options, writer)
    }
    default:
      // The compiler asks for a case of each name; plain JavaScript and a thread's data may hold another.
      throw new SystemicError(`there is no store ${JSON.stringify(name satisfies never)}: a worker was told to open what no writer can`)
  }
}

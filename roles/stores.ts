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

/** Connects when it is first used. */
export async function openStore(_name: StoreName, options: WriterOptions['store'], writer: string): Promise<Store> {
  const { openServer } = await import('../config/postgres/server.ts')
  const { classify, openSink } = await import('../sinks/postgres/sink.ts')
  const { maintain } = await import('../sinks/postgres/schema.ts')
  const database = await openServer({
    url: options.url,
    applicationName: `sluice-writer-${writer}`,
    connectionsMax: 3,
    statementTimeoutMs: options.statementTimeoutMs,
    lockTimeoutMs: options.lockTimeoutMs,
  })
  return {
    openSink: (identity, onNotice) => openSink({ database, options, onNotice, ...identity }),
    classify,
    async maintain() {
      await maintain(database, options)
    },
    close: () => database.close(),
  }
}

/** An error of a store's opening that no waiting can mend, as one that stops the process. */
export function asSystemic(error: unknown): SystemicError {
  return error instanceof SystemicError
    ? error
    : new SystemicError(error instanceof Error ? error.message : String(error), { cause: error })
}

// Client of the embedded database's thread: sends requests, receives the answers in the same order, and detects when the thread ends.

import { Worker } from 'node:worker_threads'
import { DatabaseError } from '../database.ts'
import { DamagedDatabaseError, DatabaseStartError } from './damaged.ts'

/** Values are PostgreSQL's text forms (`encodeValue`). */
export interface Statement {
  readonly sql: string
  readonly values: readonly (string | null)[]
}

export interface Copy {
  readonly target: string
  readonly binary: Uint8Array<ArrayBuffer>
}

export type Request =
  /** Answered with its rows. */
  | ({ readonly kind: 'query' } & Statement)
  /** Several statements without values; answered with the command of the last one: `COMMIT`. */
  | { readonly kind: 'execute'; readonly sql: string }
  /** Answered with the number of rows. */
  | ({ readonly kind: 'copy' } & Copy)
  /** All steps in one transaction. */
  | { readonly kind: 'run'; readonly steps: readonly (Statement | Copy)[] }
  /** Closes the database and ends the thread. */
  | { readonly kind: 'close' }

/** The first answer reports that the folder is open; each later one belongs to a request, in order. */
export type Answer = (
  | { readonly result: unknown }
  /** A structured clone of an error keeps message, stack and cause; its name and fields are sent separately. */
  | { readonly error: Error; readonly fields: object }
) & {
  /** PostgreSQL has ended, and the thread ends next. */
  readonly ended: boolean
}

export interface DatabaseThread {
  /** @throws DatabaseError; TypeError, RangeError … on a bug */
  ask(request: Request): Promise<unknown>
  /** Whether the thread takes no more requests. */
  ended(): boolean
  /** Resolves when the thread has ended and the folder is no longer open. */
  readonly gone: Promise<void>
  /** Ends the thread immediately; running requests fail as transient. */
  terminate(): Promise<void>
}

const errors = { DatabaseError, DamagedDatabaseError, DatabaseStartError }

/**
 * Starts a thread that opens the folder.
 *
 * @throws the errors of `startInstance`, after the thread has ended
 */
export async function startThread(folder: string): Promise<DatabaseThread> {
  // Without this process's Node.js flags, some of which are for its main module only.
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { workerData: folder, name: 'postgres', execArgv: [] })
  const waiting: PromiseWithResolvers<unknown>[] = []
  const gone = Promise.withResolvers<void>()
  let ended = false
  let crash: unknown

  function answer(): Promise<unknown> {
    const answered = Promise.withResolvers<unknown>()
    waiting.push(answered)
    // The thread keeps the process alive only while a request is pending.
    worker.ref()
    return answered.promise
  }

  worker.on('message', (message: Answer) => {
    ended ||= message.ended
    const answered = waiting.shift()!
    if (waiting.length === 0 && !ended) worker.unref()
    if ('error' in message) answered.reject(revived(message))
    else answered.resolve(message.result)
  })
  worker.on('error', error => {
    crash = error
  })
  worker.on('exit', code => {
    ended = true
    for (const { reject } of waiting.splice(0)) reject(crashed(folder, crash instanceof Error ? crash.message : `exit code ${code}`, crash))
    gone.resolve()
  })

  try {
    await answer()
  } catch (error) {
    await gone.promise
    throw error
  }
  return {
    ask: async request => {
      if (ended) throw crashed(folder, 'an earlier statement ended it', crash)
      worker.postMessage(request, buffersOf(request))
      return await answer()
    },
    ended: () => ended,
    gone: gone.promise,
    terminate: async () => void (await worker.terminate()),
  }
}

/** Buffers to transfer instead of copying; those of a COPY were made for the thread. */
function buffersOf(request: Request): ArrayBuffer[] {
  if (request.kind === 'copy') return [request.binary.buffer]
  if (request.kind === 'run') return request.steps.flatMap(step => ('binary' in step ? [step.binary.buffer] : []))
  return []
}

function revived({ error, fields }: { error: Error; fields: object }): Error {
  Object.assign(error, fields)
  const type = errors[error.name as keyof typeof errors]
  return type === undefined ? error : Object.setPrototypeOf(error, type.prototype)
}

/** 57P02, crash_shutdown, is transient: the next statement opens the folder again, and PostgreSQL recovers from its log. */
export function crashed(folder: string, finding: string, cause: unknown): DatabaseError {
  return new DatabaseError(`PostgreSQL in ${folder} ended: ${finding}. The next request opens it again`, {
    sqlState: '57P02',
    cause,
  })
}

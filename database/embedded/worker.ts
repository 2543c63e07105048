// Entry of the thread in which PostgreSQL runs: opens the folder, then answers one request after another.

import { parentPort, workerData } from 'node:worker_threads'
import type { PGlite } from '@electric-sql/pglite'
import { DatabaseError } from '../database.ts'
import { toDatabaseError } from '../failure.ts'
import { DamagedDatabaseError, DatabaseStartError, isDamage } from './damaged.ts'
import { type Instance, startInstance } from './instance.ts'
import type { Answer, Copy, Request } from './thread.ts'

type Runner = Pick<PGlite, 'query' | 'exec'>

const port = parentPort!
const folder = workerData as string
const post = (answer: Answer): void => port.postMessage(answer)

/** PGlite decodes texts with it: by default it leaves out a byte order mark at the start of a text. */
globalThis.TextDecoder = class extends TextDecoder {
  constructor(encoding?: string, options?: ConstructorParameters<typeof TextDecoder>[1]) {
    super(encoding, { ignoreBOM: true, ...options })
  }
}

try {
  serve(await startInstance(folder))
} catch (error) {
  post({ ...failureOf(error), ended: true })
  process.exit()
}

function serve(instance: Instance): void {
  let last: Promise<void> = Promise.resolve()
  port.on('message', (request: Request) => {
    last = last.then(() => answer(instance, request))
  })
  post({ result: undefined, ended: false })
}

async function answer(instance: Instance, request: Request): Promise<void> {
  let answered: { result: unknown } | { error: Error; fields: object }
  try {
    answered = { result: await perform(instance, request) }
  } catch (error) {
    answered = failureOf(error)
  }
  const ended = request.kind === 'close' || instance.ended() !== undefined
  post({ ...answered, ended })
  if (!ended) return
  if (request.kind !== 'close') await instance.close()
  process.exit()
}

async function perform(instance: Instance, request: Request): Promise<unknown> {
  const { pglite } = instance
  switch (request.kind) {
    case 'query':
      return (await pglite.query(request.sql, [...request.values])).rows
    case 'execute':
      return (await pglite.exec(request.sql)).at(-1)?.command
    case 'copy':
      return await copy(pglite, request)
    case 'run':
      return await pglite.transaction(async transaction => {
        for (const step of request.steps) {
          if ('sql' in step) await transaction.query(step.sql, [...step.values])
          else await copy(transaction, step)
        }
      })
    case 'close':
    default:
      return await instance.close()
  }
}

/** PGlite has no COPY FROM STDIN: the bytes appear as a file of this name during the statement. */
async function copy(runner: Runner, { target, binary }: Copy): Promise<number> {
  // PGlite uses only this method of a Blob; a real Blob would copy the bytes twice.
  const blob = { arrayBuffer: async () => binary.buffer } as Blob
  const result = await runner.query(`COPY ${target} FROM '/dev/blob' WITH (FORMAT binary)`, [], { blob })
  return result.affectedRows ?? 0
}

function failureOf(thrown: unknown): { error: Error; fields: object } {
  const error = explained(thrown)
  return { error, fields: Object.assign({}, error) }
}

function explained(thrown: unknown): Error {
  if (thrown instanceof DatabaseStartError) return thrown
  const error = toDatabaseError(thrown, `the embedded database in ${folder}`)
  return error instanceof DatabaseError && isDamage(error) && !(error instanceof DamagedDatabaseError)
    ? new DamagedDatabaseError(folder, error.message, error)
    : error
}

// Sends several statements and COPYs to a server in one exchange, without waiting for answers in between. From PostgreSQL's manual, "Message Flow":
//
//   exchange = step*, Sync            one transaction, which the Sync commits
//   step     = Parse, Bind, Execute, (CopyData*, CopyDone)?
//
// After an error the server skips all messages, including CopyData, up to the Sync; then it is ready again, outside a transaction.

import type { Connection, PoolClient } from 'pg'
import type { Step } from './database.ts'
import { encodeValue } from './values.ts'

/** Size of one CopyData message: the server processes the first ones while the rest is still being sent. */
const copyDataBytesMax = 64 * 1024
const copyDone = Uint8Array.of(0x63, 0, 0, 0, 4)

/** What `pg` requires of a queued query beyond its published types. */
interface WireConnection extends Omit<Connection, 'parse' | 'bind' | 'execute'> {
  parse(message: { text: string }): void
  bind(message: { values: readonly (string | null)[]; valueMapper: (value: unknown) => unknown }): void
  execute(): void
}

/** Resolves once the server has committed; rejects with `pg`'s error for the step that failed. */
export function exchange(client: PoolClient, steps: readonly Step[]): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const ignore = (): void => undefined
  client.query({
    submit(connection: Connection) {
      send(connection as unknown as WireConnection, steps)
    },
    handleError: reject,
    handleReadyForQuery: () => resolve(),
    handleRowDescription: ignore,
    handleDataRow: ignore,
    handleCommandComplete: ignore,
    handleEmptyQuery: ignore,
    handlePortalSuspended: ignore,
    // The data was already sent.
    handleCopyInResponse: ignore,
    handleCopyData: ignore,
  })
  return promise
}

function send(connection: WireConnection, steps: readonly Step[]): void {
  const { stream } = connection
  stream.cork()
  try {
    for (const step of steps) {
      const isStatement = 'sql' in step
      connection.parse({ text: isStatement ? step.sql : `COPY ${step.target} FROM STDIN (FORMAT binary)` })
      connection.bind({ values: isStatement ? step.values.map(encodeValue) : [], valueMapper: value => value })
      connection.execute()
      if (isStatement) continue
      for (let start = 0; start < step.binary.length; start += copyDataBytesMax) {
        const piece = step.binary.subarray(start, start + copyDataBytesMax)
        stream.write(copyDataHeader(piece.length))
        stream.write(piece)
      }
      stream.write(copyDone)
    }
  } finally {
    connection.sync()
    stream.uncork()
  }
}

function copyDataHeader(length: number): Buffer {
  const header = Buffer.allocUnsafe(5)
  header[0] = 0x64
  header.writeInt32BE(length + 4, 1)
  return header
}

// A request that is written here and travels over the connection of either client: which version of which call, and its answer.

import type { WireReader, WireWriter } from './wire.ts'

/** An answer, and how long the broker will not listen to this connection. */
export type Throttled<Answer> = Answer & { readonly throttleMs: number }

export interface WireRequest<Answer> {
  readonly apiKey: number
  readonly apiVersion: number
  readonly apiName: string
  /** Behind the head of version 2, whose tagged fields are not its own. */
  write(to: WireWriter): WireWriter
  read(from: WireReader): Throttled<Answer>
  /** How long the broker may take beyond what any request may. */
  readonly waitMs?: number
}

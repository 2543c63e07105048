// What happened to the publishes of a thing, for people who wait for its messages.

import type { ErrorCode } from '../../http/errors.ts'
import type { LogPosition } from '../log.ts'

/** Called for each publish of a known thing, so it must be cheap. It must not throw. */
export interface ArrivalListener {
  /** @param id as in the answer */
  accepted(thing: string, channel: string, id: string, position: LogPosition): void
  /** @param message as in the answer. `channel` is as the client wrote it. */
  refused(thing: string, channel: string, code: ErrorCode, message: string): void
}

// An error that a sink raises itself, with what it means for the pipeline.

import type { ErrorClass } from './sink.ts'

/** Thrown by sinks and by their `openSink`. The message says what is wrong, with what, and what to do. */
export class SinkError extends Error {
  override readonly name = 'SinkError'
  readonly errorClass: ErrorClass

  constructor(errorClass: ErrorClass, message: string, options: { cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.errorClass = errorClass
  }
}

/** The store lacks what its writer creates when it starts. */
export class UnpreparedStoreError extends SinkError {
  constructor(message: string) {
    super('systemic', message)
  }
}

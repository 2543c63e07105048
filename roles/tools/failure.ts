// How a tool ends: with its answer, or with one sentence that says what a person can do.

import { ToolError } from '../../bin/streams.ts'
import { LogUnavailableError } from '../../pipeline/log.ts'

/** Errors of what is away or wrong outside of the tool: their message is all that helps. */
const foreign: ReadonlySet<string> = new Set(['DatabaseError', 'SinkError', 'SystemicError', 'SecretError', 'OptionsError'])

/** @throws ToolError for what a person can mend; what is none is a defect, and stays as it is */
export async function explained<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof LogUnavailableError || (error instanceof Error && foreign.has(error.name))) {
      throw new ToolError(error.message, { cause: error })
    }
    throw error
  }
}

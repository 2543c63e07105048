// How a tool ends: with its answer, or with one sentence that says what a person can do.

import { type Command, CommanderError } from 'commander'
import { ToolError } from '../../bin/streams.ts'
import { LogUnavailableError, MessageRefusedError } from '../../pipeline/log.ts'

/** Errors of what is away or wrong outside of the tool: their message is all that helps. */
const foreign: ReadonlySet<string> = new Set(['DatabaseError', 'SinkError', 'SystemicError', 'SecretError', 'OptionsError'])

/** @throws ToolError for what a person can mend; what is none is a defect, and stays as it is */
export async function explained<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    if (
      error instanceof LogUnavailableError ||
      error instanceof MessageRefusedError ||
      (error instanceof Error && foreign.has(error.name))
    ) {
      throw new ToolError(error.message, { cause: error })
    }
    throw error
  }
}

/** A defect, and nothing that a store says. */
const defects: ReadonlySet<string> = new Set(['TypeError', 'ReferenceError', 'RangeError', 'SyntaxError', 'AssertionError'])
const sentenceLengthMax = 500

/** What a store or its driver threw, in one line: their errors are many, and their stacks say nothing to an operator. */
export function storeFailure(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof ToolError || foreign.has(error.name) || defects.has(error.name)) return error
  const said = error.message.replaceAll(/\s+/g, ' ').trim()
  return new ToolError(`the store cannot be asked: ${said.slice(0, sentenceLengthMax)}`, { cause: error })
}

/** Where the exit code 1 is an answer, 2 says that there is none. */
const misuse = 2

/** Of a command whose action is `answered`: misuse ends with 2. */
export function answering(command: Command): Command {
  return command.exitOverride(error => process.exit(error instanceof CommanderError && error.exitCode === 0 ? 0 : misuse))
}

/** Runs an action that resolves with whether all is well: exit code 0 where it is, 1 where it is not, 2 where that could not be asked. */
export async function answered(work: () => Promise<boolean>): Promise<void> {
  try {
    process.exitCode = (await explained(work)) ? 0 : 1
  } catch (error) {
    console.error(error instanceof ToolError ? error.message : error)
    process.exitCode = misuse
  }
}

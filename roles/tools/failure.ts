// Ends a tool: with its result, or with one sentence that says what the user can do.

import { type Command, CommanderError } from 'commander'
import { ToolError } from '../../bin/streams.ts'
import { LogUnavailableError, MessageRefusedError } from '../../pipeline/log.ts'

/** Errors whose cause is outside the tool: only their message is useful. */
const foreign: ReadonlySet<string> = new Set([
  'DamagedDatabaseError',
  'DatabaseError',
  'DataFolderError',
  'DataFolderInUseError',
  'OptionsError',
  'SecretError',
  'SinkError',
  'SystemicError',
])

/** @throws ToolError for an error that the user can fix; other errors are bugs and are rethrown */
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

/** Errors that indicate a bug and never come from a store. */
const defects: ReadonlySet<string> = new Set(['TypeError', 'ReferenceError', 'RangeError', 'SyntaxError', 'AssertionError'])
const sentenceLengthMax = 500

/** Replaces errors of a store or its driver by one line: there are many kinds, and their stacks do not help an operator. */
export function storeFailure(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof ToolError || foreign.has(error.name) || defects.has(error.name)) return error
  const said = error.message.replaceAll(/\s+/g, ' ').trim()
  return new ToolError(`the store is unavailable: ${said.slice(0, sentenceLengthMax)}`, { cause: error })
}

/** For commands where exit code 1 is a result, 2 means that there is no result. */
const misuse = 2

/** Makes misuse exit with 2, for a command whose action uses `answered`. */
export function answering(command: Command): Command {
  return command.exitOverride(error => process.exit(error instanceof CommanderError && error.exitCode === 0 ? 0 : misuse))
}

/** Runs an action that resolves with a boolean: exit code 0 for true, 1 for false, 2 if it throws. */
export async function answered(work: () => Promise<boolean>): Promise<void> {
  try {
    process.exitCode = (await explained(work)) ? 0 : 1
  } catch (error) {
    console.error(error instanceof ToolError ? error.message : error)
    process.exitCode = misuse
  }
}

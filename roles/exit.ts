// Ends a command: sets the exit code and, on failure, prints why.

import { isPretty, logLastLine } from '../config/logger.ts'
import type { LoggingOptions } from '../config/logging-options.ts'

/** Errors that an operator can fix: their message says how. Any other error is a bug, and its stack is printed. */
const operatorErrors: ReadonlySet<string> = new Set([
  'OptionsError',
  'DataFolderInUseError',
  'DataFolderError',
  'SecretError',
  'DamagedDatabaseError',
  'DatabaseStartError',
  'NewerSchemaError',
  'ControlPlaneStartError',
  'ControlPlaneRefusalError',
  'SinkError',
  'SystemicError',
  'ListenError',
  'ToolError',
])

/** Runs a role until it stops, then exits with 0, or prints the error and exits with 1. */
export async function exitAfter(logging: LoggingOptions, role: () => Promise<void>): Promise<never> {
  try {
    await role()
  } catch (error) {
    tellFailure(error, logging)
    process.exit(1)
  }
  // Everything is closed. Exits explicitly for the reason at the end of commands.ts.
  process.exit(0)
}

/** @param logging options of the role, if they were loaded: with a JSON log, the failure is logged as one line */
export function tellFailure(error: unknown, logging?: LoggingOptions): void {
  const isForOperator = error instanceof Error && operatorErrors.has(error.name)
  if (logging !== undefined && !isPretty(logging)) logLastLine(error, { withStack: !isForOperator })
  else console.error(isForOperator ? error.message : error)
}

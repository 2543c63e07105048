// How a command ends: its exit code and, where it failed, the last thing it says.

import { isPretty, type LoggingOptions, logLastLine } from '../config/logger.ts'

/** Faults that a person can mend: their message says how. Anything else is a defect, and its stack says where. */
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

/** Runs a role until it has stopped and ends the process: 0, or 1 after the sentence that says why. */
export async function exitAfter(logging: LoggingOptions, role: () => Promise<void>): Promise<never> {
  try {
    await role()
  } catch (error) {
    tellFailure(error, logging)
    process.exit(1)
  }
  // Everything is closed. Not left to the event loop: see the end of main.ts.
  process.exit(0)
}

/** @param logging of a role that has read its options: where its log is JSON, the failure is one line of it */
export function tellFailure(error: unknown, logging?: LoggingOptions): void {
  const isForOperator = error instanceof Error && operatorErrors.has(error.name)
  if (logging !== undefined && !isPretty(logging)) logLastLine(error, { withStack: !isForOperator })
  else console.error(isForOperator ? error.message : error)
}

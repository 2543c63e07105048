// The options of the process log. Apart from the logger, because worker threads log and load no schemas.

import { type Static, Type } from 'typebox'

export const loggingOptions = Type.Object({
  level: Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
    default: 'info',
    description: 'Lowest level that is logged.',
  }),
  format: Type.Enum(['auto', 'json', 'pretty'], {
    default: 'auto',
    description: 'Format of the log on standard error; `auto` is pretty on a terminal.',
  }),
})

export type LoggingOptions = Static<typeof loggingOptions>

// Finds kcat, the usual tool to look into topics, and installs Debian's package if it is missing and that is possible.

import { missingPackages } from './apt.ts'

const check = 'kcat -V >/dev/null 2>&1'

/** Installs kcat if it is missing. Returns why it is not available, with the command that would help. */
export function missingKcat(): string | undefined {
  const problem = 'there is no kcat on this machine; this installs it'
  return missingPackages({ packages: ['kcat'], problem, check })
}

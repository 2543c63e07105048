// Finds Chromium, and Python for programs that the console shows, and installs Debian's packages if they are missing and that is possible.

import { missingPackages } from './apt.ts'

export const chromium = '/usr/bin/chromium'

export const missingPython = (): string | undefined => missing('python3', 'command -v python3')
export const missingChromium = (): string | undefined => missingPython() ?? missing('chromium', `test -x ${chromium}`)

function missing(name: string, check: string): string | undefined {
  const problem = `there is no ${name} on this machine; this installs it`
  return missingPackages({ packages: [name], problem, check: `${check} > /dev/null` })
}

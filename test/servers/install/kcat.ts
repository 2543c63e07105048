// Finds kcat, the usual tool to look into topics, and installs Debian's package if it is missing and that is possible.

import { execFileSync } from 'node:child_process'
import { aptCommand, installPackages } from './apt.ts'

const packages = ['kcat']

/** Installs kcat if it is missing. Returns why it is not available, with the command that would help. */
export function missingKcat(): string | undefined {
  if (isThere()) return undefined
  const problem = installPackages(packages, 'command -v kcat >/dev/null')
  if (problem === undefined && isThere()) return undefined
  const advice = `there is no kcat on this machine; this installs it: ${aptCommand(packages)}`
  return problem === undefined || problem === '' ? advice : `${advice} (it was tried: ${problem})`
}

function isThere(): boolean {
  try {
    execFileSync('kcat', ['-V'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** What an error or a log line says is no decision: that it is thrown is, and the words have tests of their own. */
import { declareValuePlugin, PluginKind } from '@stryker-mutator/api/plugin';

const messages = {
  shouldIgnore(path) {
    if (path.isNewExpression() && path.node.callee.name?.endsWith('Error')) return 'the words of an error';
    return undefined;
  },
};

export const strykerPlugins = [declareValuePlugin(PluginKind.Ignore, 'messages', messages)];
